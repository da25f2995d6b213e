//! Makes the template of an empty database again, after a migration was added:
//! `cargo run -p orc-store-sqlite --example template`.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations/sqlite/template.db"));
    std::fs::remove_file(path)?;
    orc_store_sqlite::write_empty(path)?;
    Ok(())
}
