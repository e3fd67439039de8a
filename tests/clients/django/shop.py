"""Django over tables in a schema of their own, which the database's search_path names."""

import contextlib
import datetime
import io

import django
from django.conf import settings

from checks import DATABASE, HOST, PASSWORD, USER, VEILED, State, check, run, same, standard

CONNECTION = {
    "ENGINE": "django.db.backends.postgresql",
    "HOST": HOST,
    "PORT": VEILED,
    "USER": USER,
    "PASSWORD": PASSWORD,
    "NAME": DATABASE,
}
settings.configure(
    DATABASES={"default": {**CONNECTION, "OPTIONS": {"sslmode": "require"}}},
    USE_TZ=True,
    TIME_ZONE="UTC",
)
django.setup()

from django.db import DatabaseError, connection, models  # noqa: E402
from django.db.models.functions import TruncMonth  # noqa: E402


class Order(models.Model):
    id = models.BigIntegerField(primary_key=True)
    customer = models.IntegerField()
    country = models.CharField(max_length=2)
    state = models.TextField()
    placed = models.DateField()
    shipped = models.DateTimeField(null=True)
    price = models.DecimalField(max_digits=10, decimal_places=2)

    class Meta:
        app_label = "demo"
        managed = False
        db_table = "orders"


class Customer(models.Model):
    id = models.IntegerField(primary_key=True, db_column="Id")
    country = models.CharField(max_length=2, db_column="Country")

    class Meta:
        app_label = "demo"
        managed = False
        db_table = "Customers"


@check
def inspectdb_writes_models():
    from django.core.management import call_command

    written = io.StringIO()
    with contextlib.redirect_stderr(io.StringIO()):
        call_command("inspectdb", stdout=written)
    text = written.getvalue()
    for line in [
        "class Countries(models.Model):",
        "code = models.CharField(primary_key=True, max_length=2)",
        "title = models.CharField(max_length=40)",
    ]:
        assert line in text, text
    # Django asks each table for a row to learn its columns, and this policy shows no rows.
    for table in ["orders", "Customers"]:
        assert f"Unable to inspect table '{table}'" in text, text


@check
def the_introspection_is_postgresqls():
    with connection.cursor() as cursor:
        about = connection.introspection
        same(sorted(about.table_names(cursor)), ["Customers", "countries", "orders"])
        same(about.get_primary_key_columns(cursor, "Customers"), ["Id"])
        # The path that the policy trusts.
        same(about.get_relations(cursor, "orders"), {"customer": ("Id", "Customers")})
        same(
            sorted(key["columns"] for key in about.get_constraints(cursor, "orders").values()),
            [["customer"], ["id"]],
        )
        cursor.execute("SELECT * FROM orders LIMIT 0")
        same(
            [column.name for column in cursor.description],
            ["id", "customer", "country", "state", "placed", "shipped", "price"],
        )


@check("tls", "scram", "text")
def models_count():
    same(Order.objects.count(), 20000)
    same(Order.objects.filter(state="paid").count(), 6000)
    same(Order.objects.filter(country="DE", state__in=["paid", "sent"]).count(), 3996)
    same(Customer.objects.filter(country="DE").count(), 666)
    same(
        Order.objects.filter(placed__gte=datetime.date(2024, 1, 1), shipped__isnull=False).count(),
        15000,
    )
    same(Order.objects.filter(placed__year=2024).exclude(price__gt=1000).count(), 20000)
    found = (
        Order.objects.values("state")
        .annotate(n=models.Count("*"), dear=models.Max("price"))
        .order_by("state")
    )
    same(
        [(row["state"], row["n"]) for row in found],
        [("open", 8000), ("paid", 6000), ("sent", 6000)],
    )
    average = Order.objects.aggregate(models.Avg("price"))["price__avg"]
    assert 49 < average < 50, average
    months = (
        Order.objects.annotate(month=TruncMonth("placed"))
        .values("month")
        .annotate(n=models.Count("id"))
        .order_by("month")
    )
    same(sum(row["n"] for row in months), 20000)


def session(user=USER):
    connection.close()
    connection.settings_dict["USER"] = user

    def ask(sql):
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                return [tuple(row) for row in cursor.fetchall()] if cursor.description else None
        except DatabaseError as error:
            raise State(error.__cause__.sqlstate) from None

    connection.ensure_connection()
    ask.connection = connection.connection
    return ask


standard(session, cancel=lambda ask: ask.connection.cancel())
run()
