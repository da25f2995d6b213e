SELECT flow, no, data FROM steps
