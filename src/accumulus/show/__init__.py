"""What people look at: reports and tables."""
