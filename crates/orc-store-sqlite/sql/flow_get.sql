SELECT spec, head FROM flows WHERE id = $1
