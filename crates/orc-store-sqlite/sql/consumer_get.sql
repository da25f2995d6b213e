SELECT position FROM consumers WHERE name = $1
