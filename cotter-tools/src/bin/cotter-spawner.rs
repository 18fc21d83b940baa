//! A spawner as its own program, for programs that cannot be their own: a script's host, a test.

fn main() {
    #[cfg(unix)]
    cotter_tools::process::serve_if_asked();
    eprintln!("error: this program is started by a runner of commands, not by hand");
    std::process::exit(2);
}
