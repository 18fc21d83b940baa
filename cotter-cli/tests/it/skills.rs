//! Skills, commands, agents and memory files of the person: listed, shown, matched, checked and used.

use expect_test::expect;

use crate::support::World;

const DOCKER: &str = "---\nid: docker-deploy\nname: Docker Deployment\ndescription: Guides through deployment\ntriggers:\n  - pattern: deploy|docker\n    type: regex\n  - pattern: k8s\n    word: true\ntags: [devops]\n---\nBuild {{project_name}}.\n";

fn world() -> World {
    let world = World::new();
    world.write("home/.config/cotter/skills/docker.md", DOCKER);
    world.write(
        "home/.config/cotter/skills/coder.md",
        "---\ndescription: For coders\ntriggers: [docker]\nagents: [coder]\n---\nCode.\n",
    );
    world.write(
        "home/.config/cotter/skills/write-skill/SKILL.md",
        "---\ndescription: My own way\n---\nMine.\n",
    );
    world.write(
        "home/.config/cotter/commands/git/look.md",
        "---\ndescription: Looks\n---\nLook at $1.\n",
    );
    world
        .write("home/.config/cotter/agents/helper.md", "---\ndescription: Helps\n---\nYou help.\n");
    world
}

#[test]
fn c12_skills_are_listed_shown_and_matched() {
    let world = world();
    world.check(&["skills", "list"], expect![[r#"
        exit 0
        --- stdout
        /review-change  How to review a change to code. Use it when a diff, a commit, a branch or a pull request is to be reviewed.  (embedder)
        /write-hook     How to write a hook that gates or watches what this agent does. Use it when something is to be blocked, asked about, checked or recorded automatically.  (embedder)
        /write-skill    How to write a skill for this agent. Use it when instructions are to be kept for later, or a skill does not do what it should.  (embedder)  shadowed by user ([T]/home/.config/cotter)
        /coder          For coders  (user)
        /docker-deploy  Guides through deployment  (user)
        /write-skill    My own way  (user)
    "#]]);
    world.check(&["skills", "list", "--json"], expect![[r#"
        exit 0
        --- stdout
        {"name":"review-change","description":"How to review a change to code. Use it when a diff, a commit, a branch or a pull request is to be reviewed.","origin":"embedder","owner":"program","exposed":true,"triggers":[],"agents":[],"tags":[],"path":null}
        {"name":"write-hook","description":"How to write a hook that gates or watches what this agent does. Use it when something is to be blocked, asked about, checked or recorded automatically.","origin":"embedder","owner":"program","exposed":true,"triggers":[],"agents":[],"tags":[],"path":null}
        {"name":"write-skill","description":"How to write a skill for this agent. Use it when instructions are to be kept for later, or a skill does not do what it should.","origin":"embedder","owner":"program","exposed":true,"triggers":[],"agents":[],"tags":[],"path":null,"shadowedBy":{"origin":"user","owner":"[T]/home/.config/cotter"}}
        {"name":"coder","description":"For coders","origin":"user","owner":"[T]/home/.config/cotter","exposed":false,"triggers":[{"pattern":"docker","type":"keyword","word":false}],"agents":["coder"],"tags":[],"path":"[T]/home/.config/cotter/skills/coder.md"}
        {"name":"docker-deploy","description":"Guides through deployment","origin":"user","owner":"[T]/home/.config/cotter","exposed":false,"triggers":[{"pattern":"deploy|docker","type":"regex","word":false},{"pattern":"k8s","type":"keyword","word":true}],"agents":[],"tags":["devops"],"path":"[T]/home/.config/cotter/skills/docker.md"}
        {"name":"write-skill","description":"My own way","origin":"user","owner":"[T]/home/.config/cotter","exposed":true,"triggers":[],"agents":[],"tags":[],"path":"[T]/home/.config/cotter/skills/write-skill/SKILL.md"}
    "#]]);
    world.check(
        &["skills", "show", "docker-deploy"],
        expect![[r#"
        exit 0
        --- stdout
        /docker-deploy
        for: Guides through deployment
        from: user ([T]/home/.config/cotter)
        file: [T]/home/.config/cotter/skills/docker.md
        called by: its name
        triggers: `deploy|docker` (regex), `k8s` (keyword, whole words)
        tags: devops

        Build {{project_name}}.
    "#]],
    );
    world.check(&["skills", "show", "/write-skill", "--json"], expect![[r#"
        exit 0
        --- stdout
        {"name":"write-skill","description":"My own way","origin":"user","owner":"[T]/home/.config/cotter","exposed":true,"triggers":[],"agents":[],"tags":[],"path":"[T]/home/.config/cotter/skills/write-skill/SKILL.md","text":"Mine."}
    "#]]);
    world.check(
        &["skills", "show", "docker-deploys"],
        expect![[r#"
        exit 1
        --- stderr
        error: there is no skill `docker-deploys`

        hint: did you mean `docker-deploy`?
    "#]],
    );
    world.check(
        &["skills", "match", "Deploy it on k8s with Docker"],
        expect![[r#"
            exit 0
            --- stdout
            /coder  not triggered: `docker` (keyword) matches, and it is not for the agent `main`
            /docker-deploy  triggered: `deploy|docker` (regex), `k8s` (keyword, whole words) matches
        "#]],
    );
    world.check(
        &["skills", "match", "hello", "--json"],
        expect![[r#"
        exit 0
        --- stdout
        {"name":"coder","fires":false,"matched":[],"reason":"none of its triggers matches"}
        {"name":"docker-deploy","fires":false,"matched":[],"reason":"none of its triggers matches"}
    "#]],
    );
    world.check(&["commands", "list", "--json"], expect![[r#"
        exit 0
        --- stdout
        {"name":"compact","description":"Summarise the conversation now; TEXT says what matters: /compact [TEXT]","origin":"embedder","owner":"program"}
        {"name":"name","description":"Name this session, or show its name: /name [TEXT]","origin":"embedder","owner":"program"}
        {"name":"retry","description":"Send your last prompt again","origin":"embedder","owner":"program"}
        {"name":"tools","description":"List the tools that the model may call","origin":"embedder","owner":"program"}
        {"name":"skills","description":"List the skills","origin":"embedder","owner":"program"}
        {"name":"agents","description":"List the subagents that the model may call","origin":"embedder","owner":"program"}
        {"name":"commands","description":"List the commands","origin":"embedder","owner":"program"}
        {"name":"spaces","description":"Lists spaces, loads and unloads them: /spaces [load|unload|switch ID]","origin":"embedder","owner":"program"}
        {"name":"git:look","description":"Looks","origin":"user","owner":"[T]/home/.config/cotter"}
    "#]]);
    world.check(&["agents", "list"], expect![[r#"
        exit 0
        --- stdout
        @general   Works on a task by itself and reports the result. For work with many steps or much reading, if only the result matters here.  (embedder)
        @reviewer  Reviews code or text and reports what is wrong. Changes nothing. Name the files to read and what to look for.  (embedder)
        @helper    Helps  (user)
    "#]]);
    World::new().check(
        &["skills", "match", "hello"],
        expect![[r#"
        exit 0
        --- stdout
        no skill has triggers
    "#]],
    );
}

#[test]
fn c9_skills_check_reports_each_file() {
    let world = World::new();
    world.write("project/s/good.md", "---\ndescription: d\n---\nGood.");
    world.write("project/s/odd.md", "---\ndescription: a: b\n---\nOdd.");
    world.write(
        "project/s/bad.md",
        "---\nid: bad\ntriggers:\n  - pattern: '('\n    type: regex\n---\nBad.\u{1b}",
    );
    world.check(
        &["skills", "check", "s"],
        expect![[r#"
            exit 1
            --- stdout
            s/bad.md: rejected
              rejected  line 4: the pattern `(` cannot be a trigger: unclosed group
            s/good.md: ok
            s/odd.md: repaired
              repaired  line 2: it is not YAML; read with its values in quotes

            checked 3 skills: 1 ok, 1 repaired, 1 rejected
        "#]],
    );
    world.check(&["skills", "check", "s", "--json"], expect![[r#"
        exit 1
        --- stdout
        {"path":"s/bad.md","kind":"skill","status":"rejected","diagnostics":[{"line":4,"severity":"rejected","message":"the pattern `(` cannot be a trigger: unclosed group"}]}
        {"path":"s/good.md","kind":"skill","status":"ok","diagnostics":[]}
        {"path":"s/odd.md","kind":"skill","status":"repaired","diagnostics":[{"line":2,"severity":"repaired","message":"it is not YAML; read with its values in quotes"}]}
    "#]]);
    world.check(
        &["skills", "check", "s/good.md"],
        expect![[r#"
            exit 0
            --- stdout
            s/good.md: ok

            checked 1 skill: 1 ok
        "#]],
    );
    world.check(
        &["agents", "check", "s/good.md", "--json"],
        expect![[r#"
        exit 0
        --- stdout
        {"path":"s/good.md","kind":"agent","status":"ok","diagnostics":[]}
    "#]],
    );
    world.check(
        &["commands", "check", "none"],
        expect![[r#"
        exit 1
        --- stderr
        error: cannot check none
          caused by: No such file or directory (os error 2)

        hint: name a file or a folder that exists
    "#]],
    );
}

#[test]
fn c10_user_skills_and_memory_files_are_used() {
    let world = world();
    world.write("home/.config/cotter/skills/broken.md", "---\nid: broken\nid: twice\n---\nx");
    world.write("home/.config/cotter/AGENTS.md", "Be kind.");
    world.write("project/CLAUDE.md", "Top. @notes.md @.env @../home/.config/cotter/settings.json");
    world.write("project/notes.md", "Denied.");
    world.settings(r#"{"permissions": {"deny": ["read(./notes.md)"]}}"#);
    let script = world.script(r#"{"text": "done"}"#);
    world.check(
        &["-p", "--script", &script, "--output-format", "stream-json", "deploy it"],
        expect![[r#"
            exit 0
            --- stdout
            {"type":"session.open","v":1,"seq":1,"at":"[TIME]","sessionId":"[ID1]","runId":"","step":0,"agentId":"main","how":"created"}
            {"type":"session.start","v":1,"seq":2,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":0,"agentId":"main","model":"script"}
            {"type":"skill","v":1,"seq":3,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":0,"agentId":"main","name":"docker-deploy","source":"trigger"}
            {"type":"message","v":1,"seq":4,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":0,"agentId":"main","entry":{"type":"skill_active","id":"00000001","parentId":null,"timestamp":"[TIME]","name":"docker-deploy","text":"<skill name=\"docker-deploy\">\nBuild project.\n</skill>"}}
            {"type":"message","v":1,"seq":5,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":0,"agentId":"main","entry":{"type":"message","id":"00000002","parentId":"00000001","timestamp":"[TIME]","message":{"role":"user","content":"deploy it"}}}
            {"type":"text.start","v":1,"seq":6,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":1,"agentId":"main"}
            {"type":"text.delta","v":1,"seq":7,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":1,"agentId":"main","text":"done"}
            {"type":"text.end","v":1,"seq":8,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":1,"agentId":"main"}
            {"type":"message","v":1,"seq":9,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":1,"agentId":"main","entry":{"type":"message","id":"00000003","parentId":"00000002","timestamp":"[TIME]","message":{"role":"assistant","content":[{"type":"text","text":"done"}],"model":"script","usage":{"inputTokens":0,"outputTokens":0,"cacheRead":0,"cacheWrite":0},"stopReason":"end_turn"}}}
            {"type":"model.post","v":1,"seq":10,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":1,"agentId":"main","model":"script","stopReason":"end_turn","inputTokens":0,"outputTokens":0,"cacheRead":0,"cacheWrite":0,"costUsd":null,"toolCallCount":0}
            {"type":"session.end","v":1,"seq":11,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":1,"agentId":"main","reason":"end_turn"}
            {"type":"result","sessionId":"[ID1]","runId":"r1","reason":"end_turn","text":"done","steps":1,"usage":{"inputTokens":0,"outputTokens":0,"cacheRead":0,"cacheWrite":0},"costUsd":null}
            --- stderr
            warning: [T]/home/.config/cotter/skills/broken.md:3: duplicate key `id`
        "#]],
    );
    world.check(
        &["-p", "--script", &script, "/git:look here"],
        expect![[r#"
            exit 0
            --- stdout
            done
            --- stderr
            warning: [T]/home/.config/cotter/skills/broken.md:3: duplicate key `id`
        "#]],
    );
}
