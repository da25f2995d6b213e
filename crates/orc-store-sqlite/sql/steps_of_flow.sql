SELECT no, data FROM steps WHERE flow = $1 ORDER BY no
