SELECT flow || ' ' || step || ' ' || name AS place FROM places
WHERE name = $1
    AND NOT EXISTS (SELECT 1 FROM places AS own WHERE own.name = $1 AND own.flow = $2 AND own.step = $3)
