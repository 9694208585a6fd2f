"""What a run may spend, and what it will: bounds, pilots, forecasts."""
