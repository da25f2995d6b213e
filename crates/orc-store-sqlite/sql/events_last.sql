SELECT COALESCE(max(position), 0) FROM events
