SELECT id, spec, head FROM flows
