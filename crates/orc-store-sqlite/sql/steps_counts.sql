SELECT status, count(*) FROM steps WHERE flow = $1 GROUP BY status
