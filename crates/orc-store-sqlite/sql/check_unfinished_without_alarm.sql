SELECT id FROM flows WHERE finished_at IS NULL AND wake_at IS NULL
