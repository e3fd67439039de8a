SELECT count(*) FROM nls.women WHERE regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(race, 'a', 'b'), 'a', 'b'), 'a', 'b'), 'a', 'b'), 'a', 'b'), 'a', 'b'), 'a', 'b'), 'a', 'b'), 'a', 'b'), 'a', 'b'), 'a', 'b'), 'a', 'b'), 'a', 'b'), 'a', 'b') = 'x';
SELECT count(*) FROM nls.women WHERE race ~ '[a-z]{99}[a-z]{99}[a-z]{99}[a-z]{99}[a-z]{99}[a-z]{99}' OR race ~ '[a-z]{99}[a-z]{99}[a-z]{99}[a-z]{99}[a-z]{99}[a-z]{98}';

SELECT count(*) FROM nls.women WHERE regexp_replace(race, '^(.*)@(.*)$', '\1') = 'x';

SELECT count(*) FROM nls.women WHERE race SIMILAR TO '%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%<%' AND race SIMILAR TO '%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%>%'
