//! Plain questions, as analysts of a shop ask them on their first day.

/// A question of one scored aggregate.
pub struct Question {
    pub name: &'static str,
    pub keys: &'static [&'static str],
    pub value: &'static str,
    /// Another aggregate of the same statement, which shares its price.
    pub second: Option<&'static str>,
    /// FROM, and what follows it.
    pub from: &'static str,
    /// One household's part of each group: of the sum or count, or of the average's numerator and
    /// denominator. Empty where the value has no oracle.
    pub parts: &'static [&'static str],
}

const LINES: &str = "shop.lines";
const BASKETS: &str = "shop.baskets";
const HOUSEHOLDS: &str = "shop.households";
const BY_BAND: &str = "shop.lines JOIN shop.households USING (household_id)";
const BY_HOUR: &str = "shop.lines JOIN shop.baskets USING (household_id, basket_id)";
const BASKET_TOTALS: &str = "(SELECT household_id, basket_id, sum(sales_value) AS total FROM \
    shop.lines GROUP BY household_id, basket_id) AS baskets";
const SPENDS: &str = "(SELECT household_id, sum(sales_value) AS total FROM shop.lines GROUP BY \
    household_id) AS spends";
const SPENDS_BY_BAND: &str = "(SELECT household_id, sum(sales_value) AS total FROM shop.lines \
    GROUP BY household_id) AS spends JOIN shop.households USING (household_id)";

const SALES: &str = "sum(sales_value)";
const ROWS: &str = "count(*)";
const DISCOUNTED: &str = "count(*) FILTER (WHERE discount > 0)";

const fn sum(
    name: &'static str,
    keys: &'static [&'static str],
    value: &'static str,
    from: &'static str,
    parts: &'static [&'static str],
) -> Question {
    Question {
        name,
        keys,
        value,
        second: None,
        from,
        parts,
    }
}

pub const QUESTIONS: [Question; 31] = [
    sum("sales", &[], SALES, LINES, &[SALES]),
    sum("sales by week", &["week"], SALES, LINES, &[SALES]),
    sum("sales by month", &["month_no"], SALES, LINES, &[SALES]),
    sum(
        "sales by department",
        &["department"],
        SALES,
        LINES,
        &[SALES],
    ),
    sum("sales by category", &["category"], SALES, LINES, &[SALES]),
    sum(
        "sales by product type",
        &["product_type"],
        SALES,
        LINES,
        &[SALES],
    ),
    sum("sales by store", &["store"], SALES, LINES, &[SALES]),
    sum(
        "sales of one category",
        &[],
        SALES,
        "shop.lines WHERE category = 'category 017'",
        &[SALES],
    ),
    sum(
        "sales of week 3",
        &[],
        SALES,
        "shop.lines WHERE week = 3",
        &[SALES],
    ),
    sum(
        "sales by income band",
        &["income_band"],
        SALES,
        BY_BAND,
        &[SALES],
    ),
    sum(
        "sales by region, month",
        &["region", "month_no"],
        SALES,
        BY_BAND,
        &[SALES],
    ),
    sum("sales by hour", &["hour_no"], SALES, BY_HOUR, &[SALES]),
    Question {
        name: "sales and lines by month",
        keys: &["month_no"],
        value: SALES,
        second: Some(ROWS),
        from: LINES,
        parts: &[SALES],
    },
    sum("lines", &[], ROWS, LINES, &[ROWS]),
    sum("lines by week", &["week"], ROWS, LINES, &[ROWS]),
    sum(
        "discounted lines by month",
        &["month_no"],
        DISCOUNTED,
        LINES,
        &[DISCOUNTED],
    ),
    sum(
        "discounts by month",
        &["month_no"],
        "sum(discount)",
        LINES,
        &["sum(discount)"],
    ),
    sum("quantity", &[], "sum(quantity)", LINES, &["sum(quantity)"]),
    sum(
        "quantity by department",
        &["department"],
        "sum(quantity)",
        LINES,
        &["sum(quantity)"],
    ),
    sum("baskets", &[], ROWS, BASKETS, &[ROWS]),
    sum("baskets by week", &["week"], ROWS, BASKETS, &[ROWS]),
    sum("baskets by hour", &["hour_no"], ROWS, BASKETS, &[ROWS]),
    sum("households", &[], ROWS, HOUSEHOLDS, &[ROWS]),
    sum(
        "households by income band",
        &["income_band"],
        ROWS,
        HOUSEHOLDS,
        &[ROWS],
    ),
    sum(
        "active households by week",
        &["week"],
        "count(DISTINCT household_id)",
        BASKETS,
        &["count(DISTINCT household_id)"],
    ),
    sum(
        "average line",
        &[],
        "avg(sales_value)",
        LINES,
        &[SALES, ROWS],
    ),
    sum(
        "average line by department",
        &["department"],
        "avg(sales_value)",
        LINES,
        &[SALES, ROWS],
    ),
    sum(
        "average basket",
        &[],
        "avg(total)",
        BASKET_TOTALS,
        &["sum(total)", ROWS],
    ),
    sum(
        "average spend by income band",
        &["income_band"],
        "avg(total)",
        SPENDS_BY_BAND,
        &["sum(total)", ROWS],
    ),
    sum("spread of lines", &[], "stddev(sales_value)", LINES, &[]),
    sum(
        "median spend",
        &[],
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY total)",
        SPENDS,
        &[],
    ),
];

impl Question {
    fn select(&self, columns: &[String]) -> String {
        let keys = self.keys.join(", ");
        let selected: Vec<&str> = [keys.as_str()]
            .into_iter()
            .chain(columns.iter().map(String::as_str))
            .filter(|column| !column.is_empty())
            .collect();
        let group = if keys.is_empty() {
            String::new()
        } else {
            format!(" GROUP BY {keys}")
        };
        format!("SELECT {} FROM {}{group}", selected.join(", "), self.from)
    }

    /// The SQL of the analyst: keys, the value, the ends of its interval, further columns.
    pub fn asked(&self) -> String {
        let value = self.value;
        let mut columns = vec![
            value.to_owned(),
            format!("pgveil.ci_low({value})"),
            format!("pgveil.ci_high({value})"),
        ];
        columns.extend(self.second.map(str::to_owned));
        self.select(&columns)
    }

    /// The SQL of somebody who may see the rows.
    pub fn exact(&self) -> String {
        self.select(&[self.value.to_owned()])
    }

    /// What each household adds to each group.
    pub fn vectors(&self) -> String {
        let keys: String = self.keys.iter().map(|key| format!("{key}, ")).collect();
        let parts = self.parts.join(", ");
        format!(
            "SELECT {keys}household_id, {parts} FROM {} GROUP BY {keys}household_id",
            self.from
        )
    }

    /// Sums and counts of no row are 0; averages are unknown.
    pub fn is_additive(&self) -> bool {
        self.parts.len() == 1
    }

    /// How many aggregates the price is shared by.
    pub fn blocks(&self) -> f64 {
        if self.second.is_some() { 2.0 } else { 1.0 }
    }
}
