SELECT events.position FROM events
WHERE events.position > (SELECT min(position) FROM events)
    AND NOT EXISTS (SELECT 1 FROM events AS before WHERE before.position = events.position - 1)
