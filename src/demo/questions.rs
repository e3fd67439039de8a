//! Questions whose answers show their shape at the demo's price.

/// A question, and what it teaches.
#[derive(Debug, Clone, Copy)]
pub struct DemoQuestion {
    pub title: &'static str,
    pub why: &'static str,
    pub sql: &'static str,
    /// A coarser question that is a sum of this one's groups, and therefore free after it.
    pub coarser: Option<&'static str>,
}

/// A test asks each of them.
pub const QUESTIONS: [DemoQuestion; 7] = [
    DemoQuestion {
        title: "How many women?",
        why: "One pass over one table; the answer is off by a few dozen at most.",
        sql: "SELECT count(*) FROM nls.women;",
        coarser: None,
    },
    DemoQuestion {
        title: "How long did they go to school?",
        why: "Nineteen groups cost as much as one, since each woman is in one of them.",
        sql: "SELECT years_of_school, count(*) AS women\n  FROM nls.women\n  \
            WHERE years_of_school IS NOT NULL\n  GROUP BY years_of_school ORDER BY 1;",
        coarser: None,
    },
    DemoQuestion {
        title: "Did marriage become more common?",
        why: "Arithmetic over two noisy counts costs nothing more, and the rounds are listed in \
            the policy.",
        sql: "SELECT year, round(100.0 * count(*) FILTER (WHERE married = 1) / count(*), 1) AS \
            percent_married\n  FROM nls.interviews GROUP BY year ORDER BY year;",
        coarser: None,
    },
    DemoQuestion {
        title: "What is school worth?",
        why: "Wages by schooling. A woman adds up to fifteen interviews, so a clip is chosen from \
            a noisy look first.",
        sql: "SELECT CASE WHEN years_of_school < 12 THEN 'no diploma'\n            \
            WHEN years_of_school = 12 THEN 'high school'\n            \
            WHEN years_of_school < 16 THEN 'some college' ELSE 'college' END AS school,\n       \
            round(avg(hourly_wage), 2) AS wage\n  FROM nls.women JOIN nls.interviews USING \
            (woman_id)\n  WHERE years_of_school IS NOT NULL\n  GROUP BY 1 ORDER BY 2;",
        coarser: None,
    },
    DemoQuestion {
        title: "How did wages move?",
        why: "By decade: fifteen single years would each be noisier than the change.",
        sql: "SELECT year / 10 * 10 AS decade, round(avg(hourly_wage), 2) AS wage\n  \
            FROM nls.interviews GROUP BY 1 ORDER BY 1;",
        coarser: None,
    },
    DemoQuestion {
        title: "Where were the unions?",
        why: "Joins a public table for the names, and leaves out small industries by their noisy \
            count.",
        sql: "SELECT i.industry, round(100.0 * count(*) FILTER (WHERE union_member = 1) / \
            count(union_member), 1) AS percent_in_union\n  FROM nls.interviews v JOIN \
            nls.industries i USING (industry_code)\n  GROUP BY i.industry HAVING \
            count(union_member) > 1500 ORDER BY 2 DESC;",
        coarser: None,
    },
    DemoQuestion {
        title: "Who went to college?",
        why: "Six groups. Sums of them, such as all graduates, are free afterwards.",
        sql: "SELECT race, college_graduate, count(*) AS women\n  FROM nls.women GROUP BY race, \
            college_graduate ORDER BY 1, 2;",
        coarser: Some(
            "SELECT college_graduate, count(*) AS women\n  FROM nls.women GROUP BY \
                college_graduate ORDER BY 1;",
        ),
    },
];
