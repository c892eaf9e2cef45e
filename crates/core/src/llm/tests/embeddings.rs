//! Embeddings match their texts in number and order.

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

/// Embeds two texts against an endpoint that responds with `data`.
async fn embedded(data: Value) -> Result<Vec<Vec<f32>>, LlmError> {
    let body = json!({"object": "list", "data": data, "model": "m-1"}).to_string();
    let server = FakeEndpoint::start(move |_, _| http_response(200, "", &body)).await;
    server.endpoint().embed(&["a", "b"], later()).await
}

#[tokio::test]
async fn vectors_have_the_order_of_the_texts() {
    let server = FakeEndpoint::start(|_, body| {
        let texts = body["input"].as_array().unwrap().iter().enumerate().rev();
        let item = |(at, text): (usize, &Value)| {
            let number: f32 = text.as_str().unwrap().parse().unwrap();
            json!({"object": "embedding", "index": at, "embedding": [number, 1]})
        };
        let data: Vec<Value> = texts.map(item).collect();
        http_response(200, "", &json!({ "data": data }).to_string())
    })
    .await;
    let texts: Vec<String> = (0..130).map(|number| number.to_string()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let endpoint = server.endpoint();
    let vectors = endpoint.embed(&texts, later()).await.unwrap();
    let numbers: Vec<String> = vectors.iter().map(|vector| vector[0].to_string()).collect();
    assert_eq!(numbers, texts);
    let asked = server.asked();
    assert_eq!(asked.len(), 3);
    assert!(asked[0].0.starts_with("post /v1/embeddings "), "{}", asked[0].0);
    assert_eq!(asked[0].1["model"], "m-1");

    assert_eq!(endpoint.embed(&[], later()).await, Ok(vec![]));
    assert_eq!(server.asked().len(), 3);
}

#[tokio::test]
async fn long_texts_are_truncated_and_split_into_batches() {
    let server = FakeEndpoint::start(|_, body| {
        let count = body["input"].as_array().unwrap().len();
        let data = vec![json!({"embedding": [1.0]}); count];
        http_response(200, "", &json!({ "data": data }).to_string())
    })
    .await;
    let long = "ä".repeat(10_000);
    let vectors = server.endpoint().embed(&[long.as_str(); 9], later()).await.unwrap();
    assert_eq!(vectors.len(), 9);
    let asked = server.asked();
    let counts = asked.iter().map(|(_, body)| body["input"].as_array().unwrap().len());
    assert_eq!(counts.collect::<Vec<_>>(), [8, 1]);
    assert_eq!(asked[0].1["input"][0].as_str().unwrap().len(), 8 * 1024);
}

// invariant: search-without-model
#[tokio::test]
async fn rejects_embedding_responses_without_one_vector_per_text() {
    let two = |a: Value, b: Value| json!([{"embedding": a}, {"embedding": b}]);
    assert_eq!(embedded(two(json!([1]), json!([2]))).await, Ok(vec![vec![1.0], vec![2.0]]));
    for data in [
        json!(null),
        json!([]),
        json!([{"embedding": [1.0]}]),
        json!([{"embedding": [1.0], "index": 0}, {"embedding": [1.0], "index": 0}]),
        json!([{"embedding": [1.0], "index": 1}, {"embedding": [1.0], "index": 2}]),
        two(json!([1.0]), json!([1.0, 2.0])),
        two(json!([]), json!([])),
        two(json!([1.0]), json!([1e300])),
        two(json!([1.0]), json!(["a"])),
        two(json!([1.0]), json!("base64")),
        two(json!([1.0]), json!(vec![0; 8 * 1024 + 1])),
    ] {
        let failure = embedded(data.clone()).await.unwrap_err();
        assert!(matches!(failure, LlmError::Unusable(_)), "{data}: {failure}");
    }
}
