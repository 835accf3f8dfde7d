"""Reports, tables and explorer pages."""
