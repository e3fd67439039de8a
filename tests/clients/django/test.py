"""Django against pgveil: inspectdb writes models of the shown tables, and one of them counts."""

import contextlib
import io

import django
from django.conf import settings

from checks import DATABASE, HOST, PASSWORD, USER, VEILED, State, check, run, same, standard

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": HOST,
            "PORT": VEILED,
            "USER": USER,
            "PASSWORD": PASSWORD,
            "NAME": DATABASE,
            "OPTIONS": {"options": "-c search_path=nls", "sslmode": "require"},
        }
    },
    USE_TZ=True,
    TIME_ZONE="UTC",
)
django.setup()


@check
def inspectdb_writes_models():
    from django.core.management import call_command

    written = io.StringIO()
    with contextlib.redirect_stderr(io.StringIO()):
        call_command("inspectdb", stdout=written)
    text = written.getvalue()
    for line in [
        "class Industries(models.Model):",
        "industry_code = models.SmallIntegerField(primary_key=True)",
    ]:
        assert line in text, text
    # Django asks a table for a row to learn its columns; the policy may answer previews by no row,
    # the demo's refuses them.
    for table in ["interviews", "women"]:
        assert (
            f"class {table.capitalize()}(" in text or f"Unable to inspect table '{table}'" in text
        ), text


@check
def the_introspection_is_postgresqls():
    from django.db import connection

    with connection.cursor() as cursor:
        same(
            sorted(connection.introspection.table_names(cursor)),
            ["industries", "interviews", "occupations", "women"],
        )
        same(connection.introspection.get_primary_key_columns(cursor, "women"), ["woman_id"])
        same(connection.introspection.get_sequences(cursor, "women"), [])


@check("tls", "scram", "text")
def a_model_counts():
    from django.db import models

    class Women(models.Model):
        woman_id = models.IntegerField(primary_key=True)
        race = models.TextField()

        class Meta:
            app_label = "demo"
            managed = False
            db_table = "women"

    same(Women.objects.count(), 4711)
    same(Women.objects.filter(race="other").count(), 57)


def session(user=USER):
    from django.db import DatabaseError, connection

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


@check
def a_time_zone_is_set_as_django_sets_it():
    from django.db import connection

    with connection.cursor() as cursor:
        for zone in ["Europe/Berlin", "UTC"]:
            cursor.execute(connection.ops.set_time_zone_sql(), [zone])
            cursor.execute("SHOW TimeZone")
            same(cursor.fetchone(), (zone,))


standard(session, cancel=lambda ask: ask.connection.cancel())
run()
