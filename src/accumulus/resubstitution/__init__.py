"""Programs by value: fewer operations for the same values, whatever rule it is that makes them equal."""
