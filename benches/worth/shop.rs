//! A shop that a seed makes: the laws are drawn first, then the households, so that no two seeds
//! have the same shape of data.

use std::fmt::Write as _;
use std::pin::Pin;

use bytes::Bytes;
use futures::SinkExt;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rand_distr::{Distribution, LogNormal, Poisson, Zipf};
use tokio_postgres::{Client, Config, CopyInSink, NoTls};

pub const BANDS: [&str; 10] = [
    "under 15K",
    "15-24K",
    "25-34K",
    "35-49K",
    "50-74K",
    "75-99K",
    "100-124K",
    "125-149K",
    "150-199K",
    "200K and more",
];
pub const REGIONS: [&str; 5] = ["centre", "east", "north", "south", "west"];
const DEPARTMENTS: usize = 30;
const CATEGORIES: usize = 300;
const PRODUCT_TYPES: usize = 2_000;
const STORES: usize = 400;
pub const WEEKS: u32 = 53;
/// The policy's limits for a household, an amount and a quantity: no household exceeds them.
pub const LINES_MAX: usize = 5_000;
pub const BASKETS_MAX: usize = 1_000;
pub const VALUE_MAX: f64 = 500.0;
pub const QUANTITY_MAX: f64 = 1_000.0;
/// The category whose quantities are fuel's: tenths of a litre, where others are pieces.
const FUEL: usize = 11;

/// `month` and `hour` alone are reserved words of a peer.
const TABLES: &str = "
CREATE SCHEMA shop;
CREATE TABLE shop.departments (department text PRIMARY KEY);
CREATE TABLE shop.categories (category text PRIMARY KEY);
CREATE TABLE shop.product_types (product_type text PRIMARY KEY);
CREATE TABLE shop.households (household_id int NOT NULL, income_band text NOT NULL, region text
    NOT NULL, members int NOT NULL);
CREATE TABLE shop.baskets (basket_id int NOT NULL, household_id int NOT NULL, week int NOT NULL,
    month_no int NOT NULL, hour_no int NOT NULL, store int NOT NULL);
CREATE TABLE shop.lines (line_id int NOT NULL, household_id int NOT NULL, basket_id int NOT NULL,
    week int NOT NULL, month_no int NOT NULL, department text NOT NULL, category text NOT NULL,
    product_type text NOT NULL, store int NOT NULL, quantity int NOT NULL, sales_value
    numeric(8,2) NOT NULL, discount numeric(8,2));
";

const KEYS: &str = "
ALTER TABLE shop.households ADD PRIMARY KEY (household_id);
ALTER TABLE shop.baskets ADD PRIMARY KEY (basket_id), ADD FOREIGN KEY (household_id) REFERENCES
    shop.households;
ALTER TABLE shop.lines ADD PRIMARY KEY (line_id), ADD FOREIGN KEY (household_id) REFERENCES
    shop.households, ADD FOREIGN KEY (basket_id) REFERENCES shop.baskets;
ANALYZE;
";

/// How the households of one seed buy.
struct Laws {
    lines: LogNormal<f64>,
    basket: Poisson<f64>,
    category: Zipf<f64>,
    product_type: Zipf<f64>,
    store: Zipf<f64>,
    /// The share of lines that are of a household's favourites.
    faithful: f64,
    /// For each category, its department and the logarithm of its price.
    categories: Vec<(usize, f64)>,
    /// For each week, cumulated.
    weeks: Vec<f64>,
    hour: f64,
    bands: Zipf<f64>,
    wholesale: usize,
}

impl Laws {
    fn draw(dice: &mut ChaCha20Rng, households: usize) -> Self {
        let median: f64 = dice.random_range(50.0..110.0);
        let spread = dice.random_range(0.9..1.2);
        let zipf = |n: usize, s: f64| Zipf::new(n as f64, s).expect("a law");
        let departments = zipf(DEPARTMENTS, 0.8);
        let price = LogNormal::<f64>::new(0.9, 0.6).expect("a law");
        let categories = (0..CATEGORIES)
            .map(|_| {
                let department = departments.sample(dice) as usize - 1;
                (department, price.sample(dice).ln())
            })
            .collect();
        let (crest, swing) = (dice.random_range(1..=WEEKS), dice.random_range(0.05..0.4));
        let weeks = (1..=WEEKS).scan(0.0, |sum, week| {
            let turn = std::f64::consts::TAU * f64::from(week.abs_diff(crest)) / f64::from(WEEKS);
            *sum += 1.0 + swing * turn.cos();
            Some(*sum)
        });
        Self {
            lines: LogNormal::new(median.ln(), spread).expect("a law"),
            basket: Poisson::new(dice.random_range(4.0..10.0)).expect("a law"),
            category: zipf(CATEGORIES, dice.random_range(0.8..1.1)),
            product_type: zipf(2 * PRODUCT_TYPES / CATEGORIES, 1.0),
            store: zipf(STORES, dice.random_range(0.8..1.1)),
            faithful: dice.random_range(0.1..0.5),
            categories,
            weeks: weeks.collect(),
            hour: dice.random_range(11.0..18.0),
            bands: zipf(BANDS.len(), dice.random_range(0.3..0.9)),
            wholesale: dice.random_range(2..=(households / 800).max(4)),
        }
    }
}

/// One household's habits.
struct Household {
    id: usize,
    lines: usize,
    is_wholesale: bool,
    /// The factor of its prices.
    taste: f64,
    home: u32,
    favourites: [usize; 6],
}

fn at_most(value: f64, most: f64) -> f64 {
    value.clamp(0.0, most)
}

/// The text that COPY reads, of one table.
struct Sheet {
    sink: Pin<Box<CopyInSink<Bytes>>>,
    text: String,
    /// Held as long as its COPY runs.
    _client: Client,
}

impl Sheet {
    async fn open(config: &Config, table: &str) -> Self {
        let (client, connection) = config.connect(NoTls).await.expect("a connection");
        tokio::spawn(connection);
        let sink = client
            .copy_in(&format!("COPY shop.{table} FROM STDIN"))
            .await
            .expect("a table");
        Self {
            sink: Box::pin(sink),
            text: String::new(),
            _client: client,
        }
    }

    async fn flush(&mut self, least: usize) {
        if self.text.len() > least {
            let text = std::mem::take(&mut self.text);
            self.sink.send(Bytes::from(text)).await.expect("COPY");
        }
    }

    async fn close(mut self) -> u64 {
        self.flush(0).await;
        self.sink.as_mut().finish().await.expect("COPY")
    }
}

macro_rules! row {
    ($sheet:expr, $($format:tt)*) => {
        writeln!($sheet.text, $($format)*).expect("a text")
    };
}

/// Where the shop's rows go, and the numbers that they have so far.
struct Books {
    households: Sheet,
    baskets: Sheet,
    lines: Sheet,
    basket: usize,
    line: usize,
}

/// Makes the shop in the database and says how many baskets and lines it has.
pub async fn open(config: &Config, households: usize, seed: u64) -> (u64, u64) {
    let (client, connection) = config.connect(NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client.batch_execute(TABLES).await.expect("the tables");
    let lists = format!(
        "INSERT INTO shop.departments SELECT 'department ' || lpad(i::text, 2, '0') FROM \
            generate_series(1, {DEPARTMENTS}) i; INSERT INTO shop.categories SELECT 'category ' || \
            lpad(i::text, 3, '0') FROM generate_series(1, {CATEGORIES}) i; INSERT INTO \
            shop.product_types SELECT 'type ' || lpad(i::text, 4, '0') FROM generate_series(1, \
            {PRODUCT_TYPES}) i"
    );
    client.batch_execute(&lists).await.expect("the lists");

    let mut dice = ChaCha20Rng::seed_from_u64(seed);
    let laws = Laws::draw(&mut dice, households);
    let mut books = Books {
        households: Sheet::open(config, "households").await,
        baskets: Sheet::open(config, "baskets").await,
        lines: Sheet::open(config, "lines").await,
        basket: 0,
        line: 0,
    };
    for id in 1..=households {
        let household = books.household(&laws, &mut dice, id);
        books.shop(&laws, &mut dice, &household);
        for sheet in [&mut books.households, &mut books.baskets, &mut books.lines] {
            sheet.flush(1 << 20).await;
        }
    }
    books.households.close().await;
    let made = (books.baskets.close().await, books.lines.close().await);
    client.batch_execute(KEYS).await.expect("the keys");
    made
}

impl Books {
    fn household(&mut self, laws: &Laws, dice: &mut ChaCha20Rng, id: usize) -> Household {
        let is_wholesale = id <= laws.wholesale;
        let lines = if is_wholesale {
            dice.random_range(LINES_MAX / 3..=LINES_MAX)
        } else {
            (laws.lines.sample(dice) as usize).clamp(1, LINES_MAX)
        };
        // The most frequent band is one of the middle.
        let band = (laws.bands.sample(dice) as usize + 3) % BANDS.len();
        let region = REGIONS[at_most(dice.random::<f64>().powi(2) * 5.0, 4.0) as usize];
        row!(
            self.households,
            "{id}\t{}\t{region}\t{}",
            BANDS[band],
            dice.random_range(1..=5)
        );
        let taste = LogNormal::new(0.04 * band as f64 - 0.2, 0.2).expect("a law");
        Household {
            id,
            lines,
            is_wholesale,
            taste: taste.sample(dice),
            home: laws.store.sample(dice) as u32,
            favourites: std::array::from_fn(|_| laws.category.sample(dice) as usize - 1),
        }
    }

    fn shop(&mut self, laws: &Laws, dice: &mut ChaCha20Rng, household: &Household) {
        let hour = rand_distr::Normal::new(laws.hour, 3.0).expect("a law");
        let (mut left, mut baskets) = (household.lines, 0);
        while left > 0 {
            baskets += 1;
            // Wholesale baskets are long, and the last one that is allowed takes the rest.
            let wanted = 1 + laws.basket.sample(dice) as usize;
            let wanted = wanted * if household.is_wholesale { 3 } else { 1 };
            let lines = if baskets == BASKETS_MAX {
                left
            } else {
                wanted.min(left)
            };
            left -= lines;
            let at = dice.random::<f64>() * laws.weeks.last().copied().unwrap_or(1.0);
            let week = 1 + laws.weeks.partition_point(|sum| *sum <= at) as u32;
            let month = 1 + (week - 1) * 12 / WEEKS;
            let store = if dice.random_bool(0.7) {
                household.home
            } else {
                laws.store.sample(dice) as u32
            };
            let (household_id, hour) = (household.id, at_most(hour.sample(dice), 23.0) as u32);
            self.basket += 1;
            let basket = self.basket;
            row!(
                self.baskets,
                "{basket}\t{household_id}\t{week}\t{month}\t{hour}\t{store}"
            );
            for _ in 0..lines {
                self.line(laws, dice, household, (week, month, store));
            }
        }
    }

    fn line(
        &mut self,
        laws: &Laws,
        dice: &mut ChaCha20Rng,
        household: &Household,
        (week, month, store): (u32, u32, u32),
    ) {
        let category = if dice.random_bool(laws.faithful) {
            household.favourites[(dice.next_u64() % 6) as usize]
        } else {
            laws.category.sample(dice) as usize - 1
        };
        let (department, price) = laws.categories[category];
        let kind = laws.product_type.sample(dice) as usize - 1;
        let product_type = (category * 7 + kind * kind * 31) % PRODUCT_TYPES;
        let noise = LogNormal::new(price, 0.4).expect("a law").sample(dice);
        let (quantity, value) = if category == FUEL {
            let litres = LogNormal::<f64>::new(5.8, 0.4).expect("a law").sample(dice);
            let quantity = at_most(litres.round(), QUANTITY_MAX);
            (quantity, quantity * 0.16)
        } else {
            let many = if household.is_wholesale { 1.5 } else { 0.4 };
            let quantity = 1.0 + Poisson::new(many).expect("a law").sample(dice);
            (quantity, quantity * noise * household.taste)
        };
        let value = at_most(value, VALUE_MAX);
        let discount = if dice.random_bool(0.15) {
            format!("{:.2}", value * dice.random_range(0.05..0.4))
        } else {
            "\\N".to_owned()
        };
        self.line += 1;
        row!(
            self.lines,
            "{}\t{}\t{}\t{week}\t{month}\tdepartment {:02}\tcategory {:03}\ttype {:04}\t{store}\t\
                {quantity:.0}\t{value:.2}\t{discount}",
            self.line,
            household.id,
            self.basket,
            department + 1,
            category + 1,
            product_type + 1,
        );
    }
}
