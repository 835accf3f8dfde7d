"""What leaves the process: derivatives in files, and as libraries and packages."""
