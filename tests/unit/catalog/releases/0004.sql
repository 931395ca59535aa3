-- catalog.db as revision 0004 left it; the key of its seals is bytes(range(32)).
BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0004');
CREATE TABLE compute_pools (
	name VARCHAR NOT NULL, 
	size VARCHAR NOT NULL, 
	owner VARCHAR NOT NULL, 
	desired_state VARCHAR NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "compute_pools" VALUES('default_pool','small','sysadmin','running',1795000000000000,1795000000000000);
CREATE TABLE databases (
	name VARCHAR NOT NULL, 
	owner VARCHAR NOT NULL, 
	created_at BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "databases" VALUES('shop','sysadmin',1795000000000000);
INSERT INTO "databases" VALUES('lab','sysadmin',1795000000000000);
CREATE TABLE grants (
	role VARCHAR NOT NULL, 
	privilege VARCHAR NOT NULL, 
	object_kind VARCHAR NOT NULL, 
	object_name VARCHAR NOT NULL, 
	PRIMARY KEY (role, privilege, object_kind, object_name)
);
CREATE TABLE organizations (
	id VARCHAR(36) NOT NULL, 
	name VARCHAR NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (name)
);
INSERT INTO "organizations" VALUES('30000000-0000-4000-8000-000000000000','headrace');
CREATE TABLE queries (
	id VARCHAR(36) NOT NULL, 
	name VARCHAR, 
	version INTEGER NOT NULL, 
	kind VARCHAR NOT NULL, 
	sql TEXT NOT NULL, 
	"plan" TEXT NOT NULL, 
	sink TEXT NOT NULL, 
	sources TEXT NOT NULL, 
	compute_pool VARCHAR NOT NULL, 
	owner VARCHAR NOT NULL, 
	desired_state VARCHAR NOT NULL, 
	actual_state VARCHAR NOT NULL, 
	message TEXT, 
	sqlstate VARCHAR, 
	restarts INTEGER NOT NULL, 
	generation INTEGER NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "queries" VALUES('20000000-0000-4000-8000-000000000001','t',1,'CREATE_MATERIALIZED_VIEW_AS','CREATE …','{}','["shop", "public", "totals"]','[["shop", "public", "Orders-\u6771"]]','default_pool','sysadmin','running','running',NULL,NULL,0,1,1795264500123456,1795264500123456);
INSERT INTO "queries" VALUES('20000000-0000-4000-8000-000000000002','t',2,'INSERT_INTO','CREATE …','{}','["shop", "public", "totals"]','[["shop", "public", "Orders-\u6771"], ["shop", "public", "gone"]]','default_pool','sysadmin','terminated','terminated',NULL,NULL,0,1,1795264500123456,1795264500123456);
INSERT INTO "queries" VALUES('20000000-0000-4000-8000-000000000003',NULL,1,'INSERT_INTO','CREATE …','{}','["shop", "public", "totals"]','[["shop", "public", "Orders-\u6771"]]','default_pool','sysadmin','running','errored','bad record','22P02',2,1,1795264200123456,1795264200123456);
CREATE TABLE query_events (
	id INTEGER NOT NULL, 
	query_id VARCHAR NOT NULL, 
	time BIGINT NOT NULL, 
	state VARCHAR NOT NULL, 
	message TEXT, 
	PRIMARY KEY (id), 
	FOREIGN KEY(query_id) REFERENCES queries (id) ON DELETE CASCADE
);
INSERT INTO "query_events" VALUES(1,'20000000-0000-4000-8000-000000000001',1795000000000000,'starting',NULL);
INSERT INTO "query_events" VALUES(2,'20000000-0000-4000-8000-000000000001',1795000000000000,'running',NULL);
INSERT INTO "query_events" VALUES(3,'20000000-0000-4000-8000-000000000002',1795000000000000,'starting',NULL);
INSERT INTO "query_events" VALUES(4,'20000000-0000-4000-8000-000000000002',1795000000000000,'terminated',NULL);
INSERT INTO "query_events" VALUES(5,'20000000-0000-4000-8000-000000000003',1795000000000000,'starting',NULL);
INSERT INTO "query_events" VALUES(6,'20000000-0000-4000-8000-000000000003',1795000000000000,'errored','bad record');
CREATE TABLE relations (
	id VARCHAR(36) NOT NULL, 
	"database" VARCHAR NOT NULL, 
	schema VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	kind VARCHAR NOT NULL, 
	owner VARCHAR NOT NULL, 
	store VARCHAR, 
	entity VARCHAR, 
	definition TEXT NOT NULL, 
	description TEXT, 
	state VARCHAR NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY("database", schema) REFERENCES schemas ("database", name), 
	FOREIGN KEY(store) REFERENCES stores (name)
);
INSERT INTO "relations" VALUES('10000000-0000-4000-8000-000000000001','shop','public','Orders-東','changelog','sysadmin','k','["orders"]','{"columns": [["id", "BIGINT", false], ["who", "STRUCT<\"Name\" VARCHAR>", true]], "primary_key": ["id"], "format": {"value": {"format": "csv", "timestamps": null, "delimiter": ";"}, "key": {"format": "json", "timestamps": "iso8601"}, "key_type": "STRUCT<id BIGINT>", "key_columns": ["id"], "timestamp": "id", "upsert": true}, "properties": {"value.format": "CSV"}}','what was ordered','created',1795264200123456,1795264200123456);
INSERT INTO "relations" VALUES('10000000-0000-4000-8000-000000000002','lab','Tests','events','stream','securityadmin','k','["events"]','{"columns": [["n", "BIGINT", true]], "primary_key": [], "format": {"value": {"format": "avro", "registry": "r", "schema_text": null, "schema_id": null}, "key": null, "key_type": null, "key_columns": [], "timestamp": null, "upsert": false}, "properties": {"value.format": "AVRO"}}',NULL,'created',1795264200123456,1795264500123456);
INSERT INTO "relations" VALUES('10000000-0000-4000-8000-000000000003','shop','public','totals','materialized_view','sysadmin',NULL,NULL,'{"columns": [["n", "BIGINT", true]], "primary_key": [], "format": {"value": {"format": "json", "timestamps": null}, "key": null, "key_type": null, "key_columns": [], "timestamp": null, "upsert": false}, "properties": {}, "view": {"sql": "CREATE MATERIALIZED VIEW totals AS SELECT COUNT(*) AS n FROM orders", "database": "shop", "schema": "public"}}',NULL,'created',1795264500123456,1795264500123456);
CREATE TABLE schema_registries (
	name VARCHAR NOT NULL, 
	type VARCHAR NOT NULL, 
	owner VARCHAR NOT NULL, 
	sealed_properties BLOB NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "schema_registries" VALUES('r','confluent','sysadmin',X'35911BC77E73295C3AA6F5D172D25E31F720515DF4E7A6B16D0389DF5B35D2E6E5082755E009A23E28C382B2665649BFC573A98D72283F1CBC0AB9A07E6994386582DEE75C2FE4843C1585367868958DC620E751BE60820A1B38A0E8B016ED8831F41ECC71CBF5FA77974A5E52202136D4FAEA0864C1EB15E9ACD28E6A4FF3BEFE3F39BC73D1C38F1DA4121C4F6AD582CA7AD59948C77AB5DA085DE9C673A964B397021CA4A20EB2773F60E2C7',1795264200123456,1795264500123456);
CREATE TABLE schemas (
	"database" VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	owner VARCHAR NOT NULL, 
	created_at BIGINT NOT NULL, 
	PRIMARY KEY ("database", name), 
	FOREIGN KEY("database") REFERENCES databases (name) ON DELETE CASCADE
);
INSERT INTO "schemas" VALUES('shop','public','sysadmin',1795000000000000);
INSERT INTO "schemas" VALUES('lab','public','sysadmin',1795000000000000);
INSERT INTO "schemas" VALUES('lab','Tests','securityadmin',1795000000000000);
CREATE TABLE stores (
	name VARCHAR NOT NULL, 
	type VARCHAR NOT NULL, 
	owner VARCHAR NOT NULL, 
	sealed_properties BLOB NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, schema_registry VARCHAR REFERENCES schema_registries (name), 
	PRIMARY KEY (name)
);
INSERT INTO "stores" VALUES('k','kafka','sysadmin',X'417086B3316B185DCB3C37C37002CB1A51AC3BD4EBB30B00E89FF9D53139B86C9AC226CE38ECAB941C1F0A347E5FD130A36F92E638BA42B54F8ACEAC05FC722E533E358F5B7BB68FA752272423136D3B649113A224772DC71BF01A546EE2B8356942E7B6ABF49C165807F8BEF4584818458FCAAB0F1F4F424DECE0DBDDF6894BCEAFA5CAF694FAAA35142310',1795264200123456,1795264500123456,'r');
INSERT INTO "stores" VALUES('pg','postgresql','sysadmin',X'21A5FC833CEA84007FD715D0E76571FE46C8BA6B9D46AAE1506C5EB089485F4A89D7BC00F1C5428EB738DEE70DD186139E82150700AB9044BFE8EC57A126B029F77CEC6B2DF9961DE51427970B421C22A6730EC037B1806F2F4AABC448EBBDE0001FC409FB391D758BD28B5D9246E113FDE0EB0B75E34D7C27CEC4AAE18D0C6BB4869FA272E58F9AA4FD8C4D16EDAB2DF01C5C6A',1795264200123456,1795264200123456,NULL);
CREATE TABLE tokens (
	digest VARCHAR(64) NOT NULL, 
	user_name VARCHAR NOT NULL, 
	created_at BIGINT NOT NULL, 
	PRIMARY KEY (digest), 
	FOREIGN KEY(user_name) REFERENCES users (name) ON DELETE CASCADE
);
INSERT INTO "tokens" VALUES('5b588d038c5292e8e015ad9a4799d83059f52b7ad2b6a6dced5718ff6bb90020','admin',1795000000000000);
CREATE TABLE user_roles (
	user_name VARCHAR NOT NULL, 
	role VARCHAR NOT NULL, 
	PRIMARY KEY (user_name, role), 
	FOREIGN KEY(user_name) REFERENCES users (name) ON DELETE CASCADE
);
INSERT INTO "user_roles" VALUES('admin','orgadmin');
INSERT INTO "user_roles" VALUES('admin','sysadmin');
INSERT INTO "user_roles" VALUES('admin','securityadmin');
INSERT INTO "user_roles" VALUES('admin','useradmin');
INSERT INTO "user_roles" VALUES('admin','public');
CREATE TABLE users (
	name VARCHAR NOT NULL, 
	default_role VARCHAR NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "users" VALUES('admin','sysadmin');
CREATE UNIQUE INDEX relations_name ON relations ("database", schema, name);
CREATE INDEX queries_unfinished ON queries (created_at) WHERE NOT (desired_state = 'terminated' AND actual_state = 'terminated');
CREATE INDEX ix_query_events_query_id ON query_events (query_id);
COMMIT;
