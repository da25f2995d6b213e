SELECT 1 FROM instances WHERE id = $1
