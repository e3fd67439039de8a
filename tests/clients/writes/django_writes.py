"""Django writes through pgveil: objects, batches, transactions, COPY; values in the text of
statements, and bound by the server."""

import os

import django
from django.conf import settings


def database(**options):
    return {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": "localhost",
        "PORT": os.environ["VEILED_PORT"],
        "USER": "collector",
        "PASSWORD": "analyst",
        "NAME": "nls",
        "OPTIONS": {"sslmode": "disable", "options": '-c search_path="Survey"', **options},
    }


settings.configure(
    DATABASES={"default": database(), "bound": database(server_side_binding=True)},
    USE_TZ=True,
    TIME_ZONE="UTC",
)
django.setup()

import psycopg  # noqa: E402
from django.db import (  # noqa: E402
    DatabaseError,
    IntegrityError,
    connection,
    connections,
    models,
    transaction,
)


def direct(sql):
    with psycopg.connect(
        host="localhost", port=int(os.environ["DIRECT_PORT"]), user="postgres", dbname="nls"
    ) as owner:
        return owner.execute(sql).fetchall()


def count(where="true"):
    return direct(f'SELECT count(*) FROM "Survey"."Answers" WHERE {where}')[0][0]


class Answer(models.Model):
    """Its key is the unit. A key that the database makes would come back by RETURNING."""

    person = models.IntegerField(primary_key=True, db_column="Person")
    wave = models.IntegerField(db_column="Wave")
    smoked = models.TextField(db_column="Smoked")
    illness = models.TextField(db_column="Illness")
    letter = models.CharField(max_length=5, db_column="Letter")
    tea = models.BooleanField(db_column="Tea")
    coffee = models.BooleanField(db_column="Coffee")
    income = models.DecimalField(max_digits=8, decimal_places=2, db_column="Income")

    class Meta:
        app_label = "survey"
        managed = False
        db_table = "Answers"


class Numbered(models.Model):
    """The same table by the serial key."""

    row = models.BigAutoField(primary_key=True, db_column="Row")
    person = models.IntegerField(db_column="Person")
    wave = models.IntegerField(db_column="Wave")
    smoked = models.TextField(db_column="Smoked")
    illness = models.TextField(db_column="Illness")
    letter = models.CharField(max_length=5, db_column="Letter")
    tea = models.BooleanField(db_column="Tea")
    coffee = models.BooleanField(db_column="Coffee")
    income = models.IntegerField(db_column="Income")

    class Meta:
        app_label = "survey"
        managed = False
        db_table = "Answers"


def answer(person, of=Answer, smoked="yes"):
    return of(
        person=person,
        wave=1,
        smoked=smoked,
        illness="none of these",
        letter="bcd",
        tea=False,
        coffee=True,
        income=1000 + person,
    )


def fails(error, code, write):
    try:
        with transaction.atomic():
            write()
    except error as found:
        assert found.__cause__.sqlstate == code, found.__cause__.sqlstate
        assert "perhaps" not in str(found), found
        return
    raise AssertionError(f"{code} was expected")


answer(1).save(force_insert=True)
Answer.objects.create(
    person=2,
    wave=1,
    smoked="no",
    illness="flu",
    letter="a",
    tea=True,
    coffee=False,
    income="1000.5",
)
# Batches of several objects are arrays in UNNEST, others are VALUES.
Answer.objects.bulk_create([answer(person) for person in range(3, 103)])
Answer.objects.bulk_create((answer(person) for person in range(103, 600)), batch_size=100)
Answer.objects.bulk_create([answer(person) for person in range(600, 603)], batch_size=1)
assert count() == 602

with transaction.atomic():
    answer(700).save(force_insert=True)
    fails(DatabaseError, "22023", lambda: answer(701, smoked="perhaps").save(force_insert=True))
    answer(702).save(force_insert=True)
    assert count('"Person" >= 700') == 0
assert count('"Person" >= 700') == 2
fails(IntegrityError, "23505", lambda: answer(702).save(force_insert=True))

# save() of a key that is given asks with UPDATE first, and a serial key comes back by RETURNING.
fails(DatabaseError, "42501", lambda: answer(800).save())
fails(DatabaseError, "0A000", lambda: answer(800, of=Numbered).save())
bad = [answer(800), answer(801, smoked="perhaps")]
fails(DatabaseError, "22023", lambda: Answer.objects.bulk_create(bad))
fails(DatabaseError, "0A000", lambda: Numbered.objects.bulk_create([answer(800, of=Numbered)]))
assert count('"Person" >= 800') == 0

with connection.cursor() as cursor:
    cursor.executemany(
        'INSERT INTO "Answers" ("Person", "Wave", "Smoked", "Illness", "Letter", "Tea", "Coffee", '
        '"Income") VALUES (%s, 1, %s, %s, %s, %s, %s, %s)',
        [(person, "no", "cold", "a", True, False, 2000) for person in range(900, 950)],
    )
assert count('"Person" >= 900') == 50

answer(1000).save(force_insert=True, using="bound")
Answer.objects.using("bound").bulk_create(
    [answer(person) for person in range(1001, 1011)], batch_size=1
)
assert count('"Person" >= 1000') == 11
# Bound by the server, the arrays of a larger batch are parameters, which are not read.
try:
    Answer.objects.using("bound").bulk_create([answer(1100), answer(1101)])
    raise AssertionError("arrays as parameters")
except DatabaseError as found:
    assert found.__cause__.sqlstate == "0A000", found.__cause__.sqlstate
with connections["bound"].cursor() as cursor:
    columns = '"Person", "Wave", "Smoked", "Illness", "Letter", "Tea", "Coffee", "Income"'
    with cursor.copy(f'COPY "Answers" ({columns}) FROM STDIN') as copy:
        for person in range(1200, 1300):
            copy.write_row((person, 1, "yes", "flu", "a", True, False, 1000))
assert count('"Person" >= 1200') == 100
print("django wrote")
