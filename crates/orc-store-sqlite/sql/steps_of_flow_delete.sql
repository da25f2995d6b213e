DELETE FROM steps WHERE flow = $1
