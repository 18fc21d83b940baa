//! Detects the language and framework of a project from the files at its root.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    sync::Mutex,
};

use cotter::fs::open;

/// The detected language and framework of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DetectedProject {
    pub(crate) language: &'static str,
    pub(crate) framework: &'static str,
}

/// The cached result for the project that was detected last.
#[derive(Default)]
pub(crate) struct ProjectCache(Mutex<Option<(PathBuf, DetectedProject)>>);

impl ProjectCache {
    /// Returns the cached result if `project` is the last one, or else detects it.
    pub(crate) fn get(&self, project: &Path) -> DetectedProject {
        let mut cached = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match &*cached {
            Some((path, detected)) if path == project => detected.clone(),
            _ => {
                let detected = detect(project);
                *cached = Some((project.to_owned(), detected.clone()));
                detected
            }
        }
    }
}

/// The value if no file shows a language or framework.
const UNKNOWN: &str = "unknown";

/// The maximum number of bytes that are read of one file.
const MAX_BYTES: u64 = 256 * 1024;

/// A file at the root, the language it shows, and the words in it that show a framework. The first match
/// counts.
type ProjectMarker = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const NODE: &[(&str, &str)] = &[
    ("\"next\"", "next"),
    ("\"nuxt\"", "nuxt"),
    ("\"@angular/core\"", "angular"),
    ("\"@sveltejs/kit\"", "sveltekit"),
    ("\"svelte\"", "svelte"),
    ("\"@remix-run/", "remix"),
    ("\"astro\"", "astro"),
    ("\"vue\"", "vue"),
    ("\"solid-js\"", "solid"),
    ("\"react-native\"", "react-native"),
    ("\"react\"", "react"),
    ("\"@nestjs/core\"", "nest"),
    ("\"electron\"", "electron"),
    ("\"fastify\"", "fastify"),
    ("\"express\"", "express"),
];

const PYTHON: &[(&str, &str)] =
    &[("django", "django"), ("fastapi", "fastapi"), ("flask", "flask"), ("streamlit", "streamlit")];

const JVM: &[(&str, &str)] =
    &[("spring-boot", "spring-boot"), ("quarkus", "quarkus"), ("com.android", "android")];

const PROJECT_MARKERS: [ProjectMarker; 22] = [
    (
        "Cargo.toml",
        "rust",
        &[
            ("tauri", "tauri"),
            ("axum", "axum"),
            ("actix-web", "actix-web"),
            ("rocket", "rocket"),
            ("leptos", "leptos"),
            ("bevy", "bevy"),
        ],
    ),
    ("go.mod", "go", &[("/gin ", "gin"), ("/echo/", "echo"), ("/fiber/", "fiber")]),
    ("tsconfig.json", "typescript", &[]),
    ("deno.json", "typescript", &[("fresh", "fresh")]),
    ("package.json", "javascript", NODE),
    ("pyproject.toml", "python", PYTHON),
    ("requirements.txt", "python", PYTHON),
    ("setup.py", "python", PYTHON),
    ("manage.py", "python", &[("django", "django")]),
    ("Gemfile", "ruby", &[("rails", "rails"), ("sinatra", "sinatra")]),
    ("composer.json", "php", &[("laravel/framework", "laravel"), ("symfony/", "symfony")]),
    ("build.gradle.kts", "kotlin", JVM),
    ("build.gradle", "java", JVM),
    ("pom.xml", "java", JVM),
    ("mix.exs", "elixir", &[(":phoenix", "phoenix")]),
    ("pubspec.yaml", "dart", &[("flutter", "flutter")]),
    ("Package.swift", "swift", &[("vapor", "vapor")]),
    ("build.zig", "zig", &[]),
    ("stack.yaml", "haskell", &[]),
    ("build.sbt", "scala", &[("play", "play")]),
    ("CMakeLists.txt", "c++", &[("Qt5", "qt"), ("Qt6", "qt")]),
    ("Makefile", "c", &[]),
];

fn detect(project: &Path) -> DetectedProject {
    let real = fs::canonicalize(project).unwrap_or_else(|_| project.to_owned());
    let existing: Vec<_> =
        PROJECT_MARKERS.iter().filter(|(file, ..)| is_file(&real.join(file))).collect();
    let is_typescript = |text: &str| text.contains("\"typescript\"");
    let mut language = existing.first().map_or(UNKNOWN, |(_, language, _)| language);
    let mut framework = None;
    for (file, file_language, words) in &existing {
        let text = read(&real.join(file));
        if *file_language == "javascript" && language == "javascript" && is_typescript(&text) {
            language = "typescript";
        }
        let found = words.iter().find(|(word, _)| text.contains(word)).map(|(_, name)| *name);
        framework = framework.or(found);
    }
    DetectedProject { language, framework: framework.unwrap_or(UNKNOWN) }
}

fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
}

fn read(path: &Path) -> String {
    let mut bytes = vec![];
    if let Ok(file) = open::file(path) {
        let _ = file.take(MAX_BYTES).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c11_language_and_framework_are_detected_from_files() {
        let check = |files: &[(&str, &str)], language: &str, framework: &str| {
            let folder = tempfile::tempdir().unwrap();
            for (name, text) in files {
                fs::write(folder.path().join(name), text).unwrap();
            }
            let DetectedProject { language: found, framework: on } = detect(folder.path());
            assert_eq!((found, on), (language, framework), "{files:?}");
        };
        check(&[], "unknown", "unknown");
        check(&[("Cargo.toml", "[dependencies]\naxum = \"0.8\"")], "rust", "axum");
        check(&[("package.json", "{\"dependencies\":{\"vue\":\"3\"}}")], "javascript", "vue");
        let both = "{\"devDependencies\":{\"typescript\":\"5\",\"react\":\"19\",\"next\":\"16\"}}";
        check(&[("package.json", both)], "typescript", "next");
        check(&[("tsconfig.json", "{}"), ("package.json", "{}")], "typescript", "unknown");
        check(&[("requirements.txt", "django==5\n"), ("Makefile", "")], "python", "django");
        check(&[("go.mod", "module x\nrequire github.com/gin-gonic/gin v1\n")], "go", "gin");
        check(&[("pom.xml", "\u{fffd}\0")], "java", "unknown");
    }

    #[test]
    fn c11_linked_project_file_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("Cargo.toml")).unwrap();
        assert_eq!(detect(folder.path()).language, "unknown");
    }
}
