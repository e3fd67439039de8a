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

/// Questions about the library. The first receives the summary, which answers all but the last.
pub const LIBRARY_QUESTIONS: [DemoQuestion; 6] = [
    DemoQuestion {
        title: "Members by branch",
        why: "The first question that a summary answers receives all of it: 20 noisy groups, once, \
            at the price of one question.",
        sql: "SELECT branch, count(*) AS members\n  FROM library.members GROUP BY branch \
            ORDER BY branch;",
        coarser: None,
    },
    DemoQuestion {
        title: "Members by age",
        why: "Another key of the same summary: free for who has it.",
        sql: "SELECT CASE WHEN birth_year < 1960 THEN '65 or older'\n            \
            WHEN birth_year < 1985 THEN '40 to 64'\n            \
            WHEN birth_year < 2000 THEN '25 to 39'\n            \
            WHEN birth_year < 2010 THEN '15 to 24' ELSE 'under 15' END AS age,\n       \
            count(*) AS members\n  FROM library.members GROUP BY 1 ORDER BY 1;",
        coarser: None,
    },
    DemoQuestion {
        title: "Where are the young?",
        why: "Percentages of groups, with an error that knows how the groups' noise adds up.",
        sql: "SELECT branch,\n       round(100.0 * count(*) FILTER (WHERE birth_year >= 2000) / \
            count(*), 1)\n         AS percent_under_25\n  FROM library.members GROUP BY branch \
            ORDER BY 2 DESC;",
        coarser: None,
    },
    DemoQuestion {
        title: "How far do they walk?",
        why: "The summary has sums of minutes too, so averages are free.",
        sql: "SELECT branch, round(avg(minutes_away), 2) AS minutes\n  FROM library.members \
            GROUP BY branch ORDER BY 2;",
        coarser: None,
    },
    DemoQuestion {
        title: "Branch and age, with subtotals",
        why: "GROUP BY CUBE: groups, subtotals and the total at once. They agree with each other.",
        sql: "SELECT coalesce(branch, 'all') AS branch,\n       \
            CASE birth_year >= 1985 WHEN true THEN 'under 40'\n            \
            WHEN false THEN '40 or older' ELSE 'all' END AS age,\n       count(*) AS members\n  \
            FROM library.members\n  GROUP BY CUBE (branch, birth_year >= 1985);",
        coarser: None,
    },
    DemoQuestion {
        title: "One that it does not answer",
        why: "1990 is within a bin of the summary, 1985 to 1999, so this one has to be bought. \
            Look at its price first.",
        sql: "SELECT branch, count(*) AS members\n  FROM library.members WHERE birth_year >= 1990\
            \n  GROUP BY branch ORDER BY branch;",
        coarser: None,
    },
];
