//! What users write, to checked values: pipelines, settings; diagnostics.
