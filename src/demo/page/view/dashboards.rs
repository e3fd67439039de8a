//! The dashboards: questions that are asked again and again.

use maud::{Markup, html};

use super::again;
use crate::demo::topic::Topic;

/// A summary with its questions, and the streams.
pub fn all(topic: &Topic) -> Markup {
    html! {
        section .dashboards aria-labelledby="dashboards" {
            h2 #dashboards { "Dashboards" }
            ul {
                li {
                    h3 { "A summary" }
                    p { "Counts of members by branch and age, and how far they walk. The first \
                        question pays for all of it; the others are free." }
                    div .buttons {
                        @for question in topic.questions {
                            (again(topic, question.sql, question.title))
                        }
                    }
                }
                @for stream in topic.streams {
                    @if let Some(first) = stream.sql(0) {
                        li {
                            h3 { (stream.title) }
                            p { (stream.why) }
                            div .buttons { (again(topic, &first, "Look at it")) }
                        }
                    }
                }
            }
        }
    }
}
