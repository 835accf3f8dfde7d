"""Reports and tables for people."""
