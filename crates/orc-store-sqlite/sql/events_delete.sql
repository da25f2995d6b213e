DELETE FROM events
WHERE position <= $1
    AND position <= (SELECT COALESCE(min(consumers.position), 0) FROM consumers)
    AND position < (SELECT max(newest.position) FROM events AS newest)
