//! The spawner as its own program, for hosts that cannot be their own spawner: a script's host, a
//! test.

fn main() {
    cotter_tools::process::run_spawner_if_requested();
    eprintln!("error: cotter-spawner is started by Cotter, not by hand");
    std::process::exit(2);
}
