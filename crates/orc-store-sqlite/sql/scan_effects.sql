SELECT id, data FROM effects
