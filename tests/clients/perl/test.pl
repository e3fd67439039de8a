# Perl's DBI with DBD::Pg over the tables of tests/clients/shop.
use strict;
use warnings;
use DBI qw(:sql_types);
use DBD::Pg qw(:pg_types :async);

my $count = 'SELECT count(*) FROM orders';
my $slow = 'SELECT count(*) FROM orders i JOIN orders j USING (customer), '
    . 'countries a, countries b, countries c';
my $veiled = "dbi:Pg:dbname=nls;host=127.0.0.1;port=$ENV{VEILED_PORT};sslmode=";
my $direct = "dbi:Pg:dbname=nls;host=127.0.0.1;port=$ENV{DIRECT_PORT};sslmode=disable";
my %raising = (RaiseError => 1, PrintError => 0, PrintWarn => 0, AutoCommit => 1);
my $failed = 0;

sub open_as {
    my ($user, $tls, $password) = @_;
    my $source = $veiled . ($tls ? 'require' : 'disable');
    return DBI->connect($source, $user // 'analyst', $password // 'analyst', {%raising});
}


sub same {
    my ($found, $wanted) = @_;
    my $row = sub { ref $_[0] ? join(',', map { $_ // 'NULL' } @{ $_[0] }) : $_[0] // 'NULL' };
    my ($a, $b) = map { ref $_ ? join(';', map { $row->($_) } @$_) : $_ } ($found, $wanted);
    die "found $a, wanted $b\n" if $a ne $b;
}

sub refused {
    my ($handle, $state, $body) = @_;
    my $answered = eval { $body->(); 1 };
    die "was not refused with $state\n" if $answered;
    die 'refused with ' . $handle->state . ", not $state: $@" if $handle->state ne $state;
}

sub check {
    my ($name, $items, $body) = @_;
    if (eval { $body->(); 1 }) { print "ok     $name\n"; print "does $items\n" if $items }
    else { print "FAILED $name: $@"; $failed = 1 }
}

check('connects', 'tls scram', sub {
    for my $tls (1, 0) { same(open_as(undef, $tls)->selectrow_array('SELECT 1'), 1) }
    die "a wrong password was taken\n" if eval { open_as(undef, 1, 'wrong'); 1 };
    my $handle = open_as();
    same($handle->ping, 1);
    same($handle->{pg_server_version} >= 130000 ? 1 : 0, 1);
});

check('metadata shows what the policy shows', 'list describe', sub {
    my $handle = open_as();
    my $tables = $handle->table_info('', 'shop', '%', 'TABLE')->fetchall_arrayref;
    same([sort map { $_->[2] } @$tables], ['"Customers"', 'countries', 'orders']);
    my @named = sort $handle->tables('', 'shop', '%', 'TABLE');
    same(\@named, ['shop."Customers"', 'shop.countries', 'shop.orders']);
    my $columns = $handle->column_info('', 'shop', 'orders', '%')->fetchall_arrayref({});
    same([map { "$_->{COLUMN_NAME} $_->{pg_type}" } @$columns],
        ['id bigint', 'customer integer', 'country character(2)', 'state status', 'placed date',
            'shipped timestamp with time zone', 'price numeric(10,2)']);
    same([$handle->primary_key('', 'shop', 'Customers')], ['"Id"']);
    same([map { $_->{NAME} } @{ $handle->func('countries', 'table_attributes') }],
        ['code', 'title']);
});

check('names, types and rows are those of PostgreSQL', 'text prepared', sub {
    my ($mine, $theirs) = (open_as(), DBI->connect($direct, 'postgres', '', {%raising}));
    for my $asked (
        ['SELECT state, count(*) FROM orders GROUP BY state ORDER BY state'],
        ['SELECT count(*) FROM orders WHERE state = ?', 'paid'],
        ['SELECT count(*) FROM orders WHERE state = ?::status AND placed >= ?',
            'sent', '2024-03-01'],
        ['SELECT count(*) FROM orders WHERE price < ? AND shipped < ?',
            '50', '2024-03-01 12:00:00+00'],
        ['SELECT "Country", count(*) FROM "Customers" WHERE "Id" > ? GROUP BY 1 ORDER BY 1', 0],
        ['SELECT code, title FROM countries WHERE code = ? OR title LIKE ? ORDER BY 1',
            'AT', '%D%'],
    ) {
        my ($sql, @values) = @$asked;
        my @both;
        for my $handle ($mine, $theirs) {
            # The first run has the values in the text, the others are prepared on the server.
            my @found;
            for my $server (0, 1, 1) {
                my $statement = $handle->prepare($sql, { pg_server_prepare => $server });
                $statement->execute(@values);
                push @found, join('|', @{ $statement->{NAME} }, @{ $statement->{pg_type} });
                push @found, map { join ',', @$_ } @{ $statement->fetchall_arrayref };
            }
            push @both, \@found;
        }
        same($both[0], $both[1]);
    }
    my $poor = open_as($ENV{POOR});
    my $again = $poor->prepare('SELECT country, count(*) FROM orders WHERE placed > ? '
        . 'GROUP BY 1 ORDER BY 1');
    my $budget = 'SELECT mu_spent, epsilon_spent, rho_spent FROM pgveil.budget';
    my $spent = sub { join ',', map { $_ // '' } $poor->selectrow_array($budget) };
    $again->execute('2024-02-01');
    my ($first, $paid) = ($again->fetchall_arrayref, $spent->());
    for (1 .. 10) { $again->execute('2024-02-01'); same($again->fetchall_arrayref, $first) }
    same($spent->(), $paid);
});

check('a cursor is read in batches', 'cursor', sub {
    my $handle = open_as();
    $handle->begin_work;
    $handle->do('DECLARE c CURSOR FOR SELECT state, count(*) FROM orders GROUP BY 1 ORDER BY 1');
    same([map { scalar @{ $handle->selectall_arrayref('FETCH 2 FROM c') } } 1 .. 2], [2, 1]);
    $handle->commit;
});

check('a refusal is recovered from', 'refused transaction savepoint', sub {
    my $handle = open_as();
    refused($handle, '42501', sub { $handle->selectall_arrayref('SELECT * FROM orders LIMIT 5') });
    $handle->begin_work;
    $handle->pg_savepoint('s');
    refused($handle, '42501', sub { $handle->selectall_arrayref('SELECT * FROM orders LIMIT 5') });
    refused($handle, '25P02', sub { $handle->selectrow_array($count) });
    $handle->pg_rollback_to('s');
    same($handle->selectrow_array($count), 20000);
    $handle->pg_release('s');
    $handle->commit;
    $handle->begin_work;
    $handle->rollback;
    my $poor = open_as($ENV{POOR});
    refused($poor, '53400', sub { $poor->selectrow_array("$count WHERE id > $_") for 1 .. 50 });
    same($poor->selectrow_array('SELECT 1'), 1);
});

check('a slow statement is cancelled', 'cancel', sub {
    my $handle = open_as();
    $handle->do('SET statement_timeout = 300');
    refused($handle, '57014', sub { $handle->selectrow_array($slow) });
    $handle->do('SET statement_timeout = 0');
    $handle->do($slow, { pg_async => PG_ASYNC });
    sleep 1;
    same($handle->pg_ready ? 1 : 0, 0);
    same($handle->pg_cancel ? 1 : 0, 1);
    same($handle->selectrow_array($count), 20000);
});

check('a session is reset', 'pool', sub {
    my $handle = open_as();
    $handle->do(q{SET application_name = 'lent'});
    $handle->do('DISCARD ALL');
    die "a setting was kept\n" if $handle->selectrow_array('SHOW application_name') eq 'lent';
    $handle->do($_) for 'CLOSE ALL', 'UNLISTEN *', 'RESET ALL';
    same($handle->selectrow_array($count), 20000);
    my @pooled = ("${veiled}require", 'analyst', 'analyst', {%raising});
    my ($one, $other) = map { DBI->connect_cached(@pooled) } 1 .. 2;
    same($one == $other ? 1 : 0, 1);
});

exit $failed;
