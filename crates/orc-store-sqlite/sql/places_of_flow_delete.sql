DELETE FROM places WHERE flow = $1
