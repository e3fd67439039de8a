"""psycopg 3 and SQLAlchemy write through pgveil: single rows by both protocols, batches, COPY,
sessions."""

import os

import psycopg
from psycopg import errors
from sqlalchemy import Boolean, Integer, String, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

HOST, PORT = "localhost", int(os.environ["VEILED_PORT"])
ROLE = dict(user="collector", password="analyst", dbname="nls")
COLUMNS = '"Person", "Wave", "Smoked", "Illness", "Letter", "Tea", "Coffee", "Income"'
INSERT = f'INSERT INTO "Survey"."Answers" ({COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)'


def direct(sql):
    with psycopg.connect(
        host=HOST, port=int(os.environ["DIRECT_PORT"]), user="postgres", dbname="nls"
    ) as connection:
        return connection.execute(sql).fetchall()


def count(where="true"):
    return direct(f'SELECT count(*) FROM "Survey"."Answers" WHERE {where}')[0][0]


def row(person, wave=1):
    return (person, wave, "yes", "flu", "a", True, False, 1000 + person)


def with_psycopg():
    connect = dict(host=HOST, port=PORT, sslmode="disable", **ROLE)
    with psycopg.connect(**connect) as connection:
        for person in range(1, 11):
            connection.execute(INSERT, row(person))
        connection.commit()
        assert count() == 10
        connection.execute(INSERT, row(11), binary=True)
        connection.rollback()
        assert count() == 10
        with connection.cursor() as cursor:
            cursor.executemany(INSERT, [row(person) for person in range(11, 111)])
            assert cursor.rowcount == 100
        connection.commit()
        assert count() == 110
        try:
            with connection.transaction():
                connection.execute(INSERT, row(200))
                connection.execute(INSERT, row(200))
            raise AssertionError("a unit with two rows of one wave")
        except errors.UniqueViolation as error:
            assert "200" not in str(error) and error.diag.message_detail is None
        with connection.transaction():
            connection.execute(INSERT, row(201))
            try:
                with connection.transaction():
                    connection.execute(INSERT, (202, 1, "perhaps", "flu", "a", True, False, 1000))
            except errors.InvalidParameterValue as error:
                assert "perhaps" not in str(error)
            connection.execute(INSERT, row(203))
        connection.commit()
        assert count('"Person" > 200') == 2
        with connection.cursor() as cursor:
            with cursor.copy(f'COPY "Survey"."Answers" ({COLUMNS}) FROM STDIN') as copy:
                for person in range(300, 400):
                    copy.write_row(row(person))
        connection.commit()
        assert count('"Person" >= 300') == 100
        try:
            with connection.cursor() as cursor:
                with cursor.copy(f'COPY "Survey"."Answers" ({COLUMNS}) FROM STDIN') as copy:
                    for person in range(400, 500):
                        copy.write_row(row(person))
                    raise ValueError("the client gives up")
        except ValueError:
            connection.rollback()
        assert count('"Person" >= 400') == 0
        # Values as literals of the text, in one message of the simple protocol.
        with psycopg.ClientCursor(connection) as cursor:
            cursor.execute(INSERT, row(500))
            assert (cursor.rowcount, cursor.statusmessage) == (1, "INSERT 0 1")
            cursor.executemany(INSERT, [row(person) for person in range(501, 511)])
            connection.commit()
            try:
                cursor.execute(INSERT, (511, 1, "perhaps", "flu", "a", True, False, 1000))
                raise AssertionError("a value that is not in the list")
            except errors.InvalidParameterValue as error:
                assert "perhaps" not in str(error)
            connection.rollback()
        assert count('"Person" >= 500') == 11


class Base(DeclarativeBase):
    pass


class Answer(Base):
    __tablename__ = "Answers"
    __table_args__ = {"schema": "Survey"}
    Person: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    Wave: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    Smoked: Mapped[str] = mapped_column(String)
    Illness: Mapped[str] = mapped_column(String)
    Letter: Mapped[str] = mapped_column(String)
    Tea: Mapped[bool] = mapped_column(Boolean)
    Coffee: Mapped[bool] = mapped_column(Boolean)
    Income: Mapped[int] = mapped_column(Integer)


def answer(person):
    names = ["Person", "Wave", "Smoked", "Illness", "Letter", "Tea", "Coffee", "Income"]
    return Answer(**dict(zip(names, row(person))))


def with_sqlalchemy():
    url = f"postgresql+psycopg://collector:analyst@{HOST}:{PORT}/nls?sslmode=disable"
    engine = create_engine(url)
    with Session(engine) as session:
        session.add(answer(1000))
        session.commit()
        session.add_all([answer(person) for person in range(1001, 1051)])
        session.flush()
        session.rollback()
        session.add_all([answer(person) for person in range(1001, 1051)])
        session.commit()
    assert count('"Person" >= 1000') == 51
    with engine.connect() as connection:
        raw = connection.connection.driver_connection
        with raw.cursor() as cursor:
            with cursor.copy(f'COPY "Survey"."Answers" ({COLUMNS}) FROM STDIN') as copy:
                for person in range(2000, 2100):
                    copy.write_row(row(person))
        raw.commit()
    assert count('"Person" >= 2000') == 100
    assert direct('SELECT count(DISTINCT "Illness") FROM "Survey"."Answers"')[0][0] == 3


with_psycopg()
print("psycopg wrote")
with_sqlalchemy()
print("sqlalchemy wrote")
