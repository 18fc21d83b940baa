//! HTTP connections to providers: errors by status, timeouts, broken connections, and secrets that
//! are never shown.

use std::time::{Duration, SystemTime};

use cotter::model::{Model, ModelErrorKind};
use cotter_models::{ApiFormat, ApiKey, Http, Provider};
use cotter_test::{After, Answer, Cut, Dialect, LocalProvider};
use expect_test::{Expect, expect};
use futures_util::StreamExt;
use tokio::time::timeout;

use crate::kit::{
    KEY, deltas, failure, hello, model_at, model_name, model_over, provider_at, reply_deltas, shown,
};

const ANTHROPIC: Dialect = Dialect::AnthropicMessages;

/// Compares the deltas of one answer.
async fn check(answer: Answer, expected: Expect) {
    let provider = LocalProvider::start(ANTHROPIC, [answer]);
    expected.assert_eq(&reply_deltas(&model_at(&provider), hello()).await);
    assert_eq!(provider.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn status_decides_the_error_kind() {
    let statuses =
        [204, 301, 400, 401, 402, 403, 404, 408, 409, 413, 418, 429, 500, 502, 503, 504, 529];
    let mut table = String::new();
    for status in statuses {
        let provider = LocalProvider::start(ANTHROPIC, [Answer::status(status)]);
        table += &reply_deltas(&model_at(&provider), hello()).await;
    }
    expect![[r#"
        other: the provider answered 204
        other: the provider answered 301: Error
        bad_request: the provider answered 400: Error
        auth: the provider answered 401: invalid x-api-key
        other: the provider answered 402: There is an issue with your billing.
        auth: the provider answered 403: Your API key does not have permission for this.
        bad_request: the provider answered 404: model: unknown
        timeout: the provider answered 408: Error
        overloaded: the provider answered 409: The resource was changed by another request.
        context_overflow: the provider answered 413: Request exceeds the maximum size
        bad_request: the provider answered 418: Error
        rate_limited: the provider answered 429: This request would exceed your rate limit.
        overloaded: the provider answered 500: Internal server error
        overloaded: the provider answered 502: Internal server error
        overloaded: the provider answered 503: Internal server error
        timeout: the provider answered 504: The request timed out.
        overloaded: the provider answered 529: Overloaded
    "#]]
    .assert_eq(&table);
}

#[tokio::test]
async fn error_bodies_of_all_shapes_are_read() {
    let bodies = [
        "",
        "no such page",
        "<html>\n<body>Bad gateway</body>\n</html>",
        r#"{"error":"model 'x' not found"}"#,
        r#"{"detail":"Not Found"}"#,
        r#"{"object":"error","message":"too long","type":"BadRequestError","code":400}"#,
        r#"[{"error":{"code":400,"message":"Bad.","status":"INVALID_ARGUMENT"}}]"#,
        r#"{"error":{"message":"prompt is too long: 208310 tokens > 200000 maximum"}}"#,
        r#"{"error":{"type":"billing_error","message":"Pay."}}"#,
        r#"{"error":{"message":7}}"#,
        "\u{1b}[31mred\u{202e}desrever",
    ];
    let mut table = String::new();
    for body in bodies {
        let provider = LocalProvider::start(ANTHROPIC, [Answer::status(400).and_body(body)]);
        table += &reply_deltas(&model_at(&provider), hello()).await;
    }
    expect![[r#"
        bad_request: the provider answered 400
        bad_request: the provider answered 400: no such page
        bad_request: the provider answered 400: <html>\n<body>Bad gateway</body>\n</html>
        bad_request: the provider answered 400: model 'x' not found
        bad_request: the provider answered 400: Not Found
        bad_request: the provider answered 400: too long
        bad_request: the provider answered 400: Bad.
        context_overflow: the provider answered 400: prompt is too long: 208310 tokens > 200000 maximum
        other: the provider answered 400: Pay.
        bad_request: the provider answered 400: {"error":{"message":7}}
        bad_request: the provider answered 400: \u{1b}[31mred\u{202e}desrever
    "#]].assert_eq(&table);
}

#[tokio::test]
async fn retry_after_is_read_in_all_spellings() {
    let hour = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(3600));
    let past = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH);
    let spellings: &[&[(&str, &str)]] = &[
        &[],
        &[("retry-after", "2")],
        &[("Retry-After", " 0.25 ")],
        &[("retry-after-ms", "1500")],
        &[("retry-after-ms", "1500"), ("retry-after", "9")],
        &[("retry-after-ms", "soon"), ("retry-after", "9")],
        &[("retry-after", &past)],
        &[("retry-after", "-1")],
        &[("retry-after", "1e400")],
        &[("retry-after", "tomorrow")],
        &[("x-should-retry", "false"), ("retry-after", "2")],
    ];
    let mut table = String::new();
    for headers in spellings {
        let with = |answer: Answer, (name, value): &(&str, &str)| answer.and_header(*name, *value);
        let answer = headers.iter().fold(Answer::status(429), with);
        let provider = LocalProvider::start(ANTHROPIC, [answer]);
        let text_part = deltas(&model_at(&provider), hello()).await;
        let error = text_part[0].as_ref().expect_err("429 is a failure");
        table += &format!("{headers:?} {} {:?}\n", error.kind.as_str(), error.retry_after);
    }
    expect![[r#"
        [] rate_limited None
        [("retry-after", "2")] rate_limited Some(2s)
        [("Retry-After", " 0.25 ")] rate_limited Some(250ms)
        [("retry-after-ms", "1500")] rate_limited Some(1.5s)
        [("retry-after-ms", "1500"), ("retry-after", "9")] rate_limited Some(1.5s)
        [("retry-after-ms", "soon"), ("retry-after", "9")] rate_limited Some(9s)
        [("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT")] rate_limited Some(0ns)
        [("retry-after", "-1")] rate_limited None
        [("retry-after", "1e400")] rate_limited None
        [("retry-after", "tomorrow")] rate_limited None
        [("x-should-retry", "false"), ("retry-after", "2")] other Some(2s)
    "#]]
    .assert_eq(&table);

    let answer = Answer::status(429).and_header("retry-after", hour);
    let provider = LocalProvider::start(ANTHROPIC, [answer]);
    let text_part = deltas(&model_at(&provider), hello()).await;
    let wait =
        text_part[0].as_ref().expect_err("429 is a failure").retry_after.expect("it was asked for");
    assert!(wait > Duration::from_secs(1800) && wait <= Duration::from_secs(3600), "{wait:?}");
}

#[tokio::test]
async fn wait_is_read_from_the_message() {
    check(
        Answer::status(429).and_body(
            r#"{"error":{"code":"rate_limit_exceeded","message":"Please try again in 11.054s. Yes."}}"#,
        ),
        expect![[r#"
            rate_limited: the provider answered 429: Please try again in 11.054s. Yes. (wait 11.054s)
        "#]],
    )
    .await;
    check(
        Answer::status(429).and_body(
            r#"[{"error":{"status":"RESOURCE_EXHAUSTED","message":"No.","details":[{"@type":"x"},{"retryDelay":"37s"}]}}]"#,
        ),
        expect![[r#"
            rate_limited: the provider answered 429: No. (wait 37s)
        "#]],
    )
    .await;
}

#[tokio::test]
async fn exhausted_quota_is_no_rate_limit() {
    check(
        Answer::status(429).and_retry_after(Duration::from_secs(2)).and_body(
            r#"{"error":{"type":"insufficient_quota","message":"You exceeded your quota."}}"#,
        ),
        expect![[r#"
            other: the provider answered 429: You exceeded your quota. (wait 2s)
        "#]],
    )
    .await;
}

#[tokio::test]
async fn an_answer_may_be_compressed() {
    let text = "Word for word. ".repeat(40);
    let plain = LocalProvider::start(ANTHROPIC, [Answer::text(text.as_str())]);
    let expected = reply_deltas(&model_at(&plain), hello()).await;
    for size in [1, 7, usize::MAX] {
        let answer = Answer::text(text.as_str()).and_gzip().and_pieces_of(size);
        let provider = LocalProvider::start(ANTHROPIC, [answer]);
        assert_eq!(reply_deltas(&model_at(&provider), hello()).await, expected);
        let asked = provider.requests()[0].header("accept-encoding").map(str::to_owned);
        assert_eq!(asked.as_deref(), Some("gzip"));
    }
}

#[tokio::test]
async fn compressed_event_is_read_before_the_next_arrives() {
    let answer = Answer::text("One two").and_gzip().and_hang();
    let provider = LocalProvider::start(ANTHROPIC, [answer]);
    let mut stream = model_at(&provider).stream(hello());
    let first: Vec<_> = stream.by_ref().take(3).collect().await;
    expect![[r#"
        counted 11
        text "One "
        text "two"
    "#]]
    .assert_eq(&shown(&first));
}

#[tokio::test]
async fn silence_times_out() {
    let http = Http::new().with_idle_timeout(Duration::from_millis(200));
    let silences = [
        Answer::hang(),
        Answer::text("One two").and_cut(After::Events(0), Cut::Hang),
        Answer::text("One two").and_hang(),
        Answer::text("One two").and_cut(After::Bytes(1), Cut::Hang),
    ];
    let mut table = String::new();
    for answer in silences {
        let provider = LocalProvider::start(ANTHROPIC, [answer]);
        let text_part = reply_deltas(&model_over(&provider, &http), hello()).await;
        table += &(text_part.replace(&provider.address().to_string(), "HERE") + "--\n");
        provider.closed(1).await;
    }
    expect![[r#"
        timeout: anthropic/claude-opus-4-6 at http://HERE: no data for 200ms
        --
        timeout: no data for 200ms
        --
        counted 11
        text "One "
        text "two"
        timeout: no data for 200ms
        --
        timeout: no data for 200ms
        --
    "#]]
    .assert_eq(&table);
}

#[tokio::test]
async fn endless_error_body_is_cut() {
    let http = Http::new().with_idle_timeout(Duration::from_millis(200));
    let answer = Answer::status(529).and_cut(After::Bytes(0), Cut::Hang);
    let provider = LocalProvider::start(ANTHROPIC, [answer]);
    let text_part = reply_deltas(&model_over(&provider, &http), hello()).await;
    expect![[r#"
        overloaded: the provider answered 529
    "#]]
    .assert_eq(&text_part);
    provider.closed(1).await;
}

#[tokio::test]
async fn dripping_answer_is_ended_by_the_limit_on_a_request() {
    let idle = Duration::from_secs(60);
    let http = Http::new().with_idle_timeout(idle);
    let http = http.with_request_timeout(Duration::from_millis(300));
    let answer = || Answer::text("One two").and_cut(After::Events(0), Cut::Drip);
    for dialect in Dialect::ALL {
        let provider = LocalProvider::start(dialect, [answer()]);
        let model = model_over(&provider, &http);
        let deltas = tokio::time::timeout(idle / 2, reply_deltas(&model, hello())).await;
        let deltas = deltas.expect("the limit ends it");
        let end = "the request took longer than 300ms\n";
        assert!(deltas.starts_with("timeout: ") && deltas.ends_with(end), "{deltas}");
        provider.closed(1).await;
    }
}

#[tokio::test]
async fn pings_reset_the_idle_timeout() {
    let http = Http::new().with_idle_timeout(Duration::from_secs(60));
    for dialect in Dialect::ALL {
        let plain = LocalProvider::start(dialect, [Answer::text("One two three.")]);
        let pings = Answer::text("One two three.").and_pings().and_comments("still here");
        let pinged = LocalProvider::start(dialect, [pings]);
        let expected = reply_deltas(&model_over(&plain, &http), hello()).await;
        assert_eq!(reply_deltas(&model_over(&pinged, &http), hello()).await, expected);
    }
}

#[tokio::test]
async fn broken_connection_is_a_network_error() {
    let mut table = String::new();
    for cut in [Cut::Reset, Cut::Close] {
        for after in [After::Nothing, After::Events(0), After::Events(3), After::Content] {
            let answer = Answer::text("One two").and_cut(after, cut);
            let provider = LocalProvider::start(ANTHROPIC, [answer]);
            let text_part = deltas(&model_at(&provider), hello()).await;
            let error =
                text_part.last().expect("something is said").as_ref().expect_err("it broke");
            assert_eq!(error.kind, ModelErrorKind::Network, "{error}");
            let from = format!("anthropic/claude-opus-4-6 at http://{}: ", provider.address());
            let words = error.message.replace(&from, "on the way, ");
            let words = words.split(": ").next().expect("it has words");
            table += &format!("{cut:?} after {after:?}: {words}\n");
        }
    }
    expect![[r#"
        Reset after Nothing: on the way, the request failed
        Reset after Events(0): the answer broke off
        Reset after Events(3): the answer broke off
        Reset after Content: the answer broke off
        Close after Nothing: on the way, the request failed
        Close after Events(0): the answer broke off
        Close after Events(3): the answer broke off
        Close after Content: the answer broke off
    "#]]
    .assert_eq(&table);
}

#[tokio::test]
async fn refused_connection_is_a_network_error() {
    let provider = LocalProvider::start(ANTHROPIC, []);
    let model = model_at(&provider);
    drop(provider);
    let text_part = deltas(&model, hello()).await;
    let error = text_part[0].as_ref().expect_err("nobody listens");
    assert_eq!(error.kind, ModelErrorKind::Network);
    assert!(error.message.contains(": the connection failed: "), "{error}");
    assert!(error.message.starts_with("anthropic/claude-opus-4-6 at http://127.0.0.1:"), "{error}");
}

#[tokio::test]
async fn l21_aborting_closes_the_connection_at_once() {
    for dialect in Dialect::ALL {
        for (after, pieces) in [(After::Nothing, 0), (After::Events(0), 0), (After::Content, 2)] {
            let answer = Answer::text("One two").and_cut(after, Cut::Hang);
            let provider = LocalProvider::start(dialect, [answer]);
            let mut stream = model_at(&provider).stream(hello());
            for _ in 0..pieces {
                stream.next().await.expect("it speaks").expect("it speaks well");
            }
            tokio::select! {
                biased;
                piece = stream.next() => panic!("it hangs, and said {piece:?}"),
                () = provider.received(1) => {}
            }
            drop(stream);
            // Long before the idle timeout of a connection.
            timeout(Duration::from_secs(20), provider.closed(1)).await.expect("it was closed");
        }
    }
}

#[tokio::test]
async fn complete_reply_does_not_wait_for_the_connection() {
    for dialect in Dialect::ALL {
        let answer = Answer::text("One two").and_cut(After::Events(usize::MAX), Cut::Hang);
        let provider = LocalProvider::start(dialect, [answer, Answer::text("Three.")]);
        let model = model_at(&provider);
        assert!(reply_deltas(&model, hello()).await.ends_with("written 0\n"));
        // That connection is unusable, so the next request opens another.
        assert!(reply_deltas(&model, hello()).await.ends_with("written 0\n"));
        assert_eq!(provider.connections(), 2);
    }
}

#[tokio::test]
async fn twenty_requests_use_one_connection() {
    for dialect in Dialect::ALL {
        let provider = LocalProvider::start_with(dialect, |_| Answer::text("One two three."));
        let model = model_at(&provider);
        for _ in 0..20 {
            reply_deltas(&model, hello()).await;
        }
        assert_eq!(provider.requests().len(), 20);
        assert_eq!(provider.connections(), 1, "{dialect:?}");
    }
}

#[tokio::test]
async fn a_failure_leaves_the_connection_usable() {
    let answers = [Answer::status(429), Answer::text("Well."), Answer::status(529)];
    let provider = LocalProvider::start(ANTHROPIC, answers);
    let model = model_at(&provider);
    for _ in 0..3 {
        reply_deltas(&model, hello()).await;
    }
    assert_eq!(provider.connections(), 1);
}

#[tokio::test]
async fn response_that_is_no_event_stream_is_an_error() {
    let page = |kind: &str| Answer::text("Log in.").and_header("content-type", kind);
    check(page("text/html; charset=utf-8"), expect![[r#"
        bad_request: expected a stream of events, found `text/html; charset=utf-8`; is the address right?
    "#]]).await;
    check(
        page("application/json"),
        expect![[r#"
        bad_request: expected a stream of events, found `application/json`; is the address right?
    "#]],
    )
    .await;
    check(
        page("Text/Event-Stream"),
        expect![[r#"
            counted 11
            text "Log "
            text "in."
            end_turn: in 10, out 5, cache read 0, written 0
        "#]],
    )
    .await;
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = LocalProvider::start_with(ANTHROPIC, |_| Answer::text("Your key, please."));
    let mut table = String::new();
    for status in [301, 302, 303, 307, 308] {
        let to = format!("{}/v1/messages", elsewhere.url());
        let answer = Answer::status(status).and_header("location", to).and_body("");
        let provider = LocalProvider::start(ANTHROPIC, [answer]);
        table += &reply_deltas(&model_at(&provider), hello()).await;
    }
    assert_eq!(elsewhere.connections(), 0);
    expect![[r#"
        other: the provider answered 301
        other: the provider answered 302
        other: the provider answered 303
        other: the provider answered 307
        other: the provider answered 308
    "#]]
    .assert_eq(&table);
}

#[tokio::test]
async fn s28_key_is_in_no_error_even_if_a_server_repeats_it() {
    let text_part = serde_json::json!({"type": "error", "error": {"type": KEY, "message": KEY}});
    let event = format!("event: error\ndata: {text_part}\n\n");
    let echoes = [
        Answer::status(401).and_body(text_part.to_string()),
        Answer::status(500).and_body(format!("<p>{KEY}</p>")),
        Answer::status(400).and_body(format!("x-api-key: {KEY}\nauthorization: Bearer {KEY}")),
        Answer::status(302).and_header("location", format!("http://{KEY}/")).and_body(KEY),
        Answer::text("a").and_header("content-type", format!("text/html; key=\"{KEY}\"")),
        Answer::events(event),
        Answer::events(format!("data: {{{KEY}}}\n\n")),
        Answer::events(format!("event: error\ndata: \"{KEY}\"\n\n")),
        Answer::raw(format!("HTTP/1.1 {KEY}\r\n\r\n")),
    ];
    for echo in echoes {
        for dialect in Dialect::ALL {
            let provider = LocalProvider::start(dialect, [echo.clone()]);
            let text_part = deltas(&model_at(&provider), hello()).await;
            let keys = provider.requests()[0]
                .headers
                .iter()
                .filter(|(_, value)| value.contains(KEY))
                .count();
            assert_eq!(keys, 1, "the key was sent");
            let error =
                text_part.last().expect("something is said").as_ref().expect_err("it fails");
            let shown = format!("{}{error:?}", failure(error));
            assert!(!shown.contains(KEY), "{dialect:?} {echo:?} gave {shown}");
        }
    }
}

#[tokio::test]
async fn s28_key_is_in_no_debug_output() {
    let provider = LocalProvider::start(ANTHROPIC, []);
    let shown = format!("{:?} {:?}", provider_at(&provider), ApiKey::new(KEY));
    assert!(!shown.contains(KEY), "{shown}");
}

#[tokio::test]
async fn invalid_key_sends_nothing() {
    let local = LocalProvider::start(ANTHROPIC, []);
    let provider = provider_at(&local).with_key(ApiKey::new("two\nlines"));
    let text_part =
        reply_deltas(&provider.model(model_name(ANTHROPIC), &Http::new()), hello()).await;
    expect![[r#"
        auth: the key has characters that are not allowed in an HTTP header
    "#]]
    .assert_eq(&text_part);
    assert_eq!(local.connections(), 0);
}

#[tokio::test]
async fn invalid_address_is_a_bad_request() {
    for url in ["", "not an address", "ftp://127.0.0.1"] {
        let provider = Provider::new("lab", ApiFormat::AnthropicMessages, url);
        let text_part = deltas(&provider.model("local", &Http::new()), hello()).await;
        let error = text_part[0].as_ref().expect_err("there is nobody");
        assert_eq!(error.kind, ModelErrorKind::BadRequest, "{url}: {error}");
    }
}

#[tokio::test]
async fn huge_error_body_is_clipped() {
    let answer = Answer::status(500).and_body("x".repeat(10 * 1024 * 1024));
    let provider = LocalProvider::start(ANTHROPIC, [answer]);
    let text_part = deltas(&model_at(&provider), hello()).await;
    let error = text_part[0].as_ref().expect_err("500 is a failure");
    assert_eq!(error.kind, ModelErrorKind::Overloaded);
    assert!(error.message.len() < 1000, "{} bytes", error.message.len());
}

#[tokio::test]
async fn a_huge_header_is_a_network_failure() {
    let answer = Answer::text("Well.").and_header("x-huge", "x".repeat(2 * 1024 * 1024));
    let provider = LocalProvider::start(ANTHROPIC, [answer]);
    let text_part = deltas(&model_at(&provider), hello()).await;
    let error = text_part[0].as_ref().expect_err("nobody reads that");
    assert_eq!(error.kind, ModelErrorKind::Network, "{error}");
    assert!(error.message.len() < 1000, "{} bytes", error.message.len());
}

#[tokio::test]
async fn invalid_http_is_a_network_error() {
    for bytes in
        ["", "\r\n", "SSH-2.0-OpenSSH_9.6\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx"]
    {
        let provider = LocalProvider::start(ANTHROPIC, [Answer::raw(bytes)]);
        let text_part = deltas(&model_at(&provider), hello()).await;
        let error = text_part.last().expect("something is said").as_ref().expect_err("it is none");
        assert_eq!(error.kind, ModelErrorKind::Network, "{bytes:?}: {error}");
    }
}

#[tokio::test]
async fn provider_lists_its_models() {
    for dialect in Dialect::ALL {
        let local = LocalProvider::start(dialect, []).with_models(["one", "two/three"]);
        let list_models = provider_at(&local).list_models(&Http::new()).await;
        assert_eq!(list_models, Ok(vec!["one".to_owned(), "two/three".to_owned()]));
    }
}
