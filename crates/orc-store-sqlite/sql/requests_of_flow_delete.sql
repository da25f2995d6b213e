DELETE FROM requests WHERE flow = $1
