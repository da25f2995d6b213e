UPDATE runs SET claimed_by = $2
WHERE id = $1 AND claimed_by IS NULL AND finished_at IS NULL
