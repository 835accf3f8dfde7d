"""Export of derivatives: to files, C libraries and Python packages."""
