/* SPDX-License-Identifier: Apache-2.0 */
/* Which files of settings hold a credential: src/engine/secret-content.c. */
#include <string.h>

#include "engine/run.h"
#include "tap.h"

static bool is_harmless(const char *text)
{
	return secret_content_is_harmless(text, strlen(text));
}

TEST(files_that_name_registries_and_users_are_harmless)
{
	static const char *const good[] = {
		"",
		"registry=https://registry.npmjs.org/\n",
		"@corp:registry=https://npm.corp.example/\nalways-auth=true\nsave-exact=true\nstrict-ssl=false\n",
		"//npm.corp.example/:_authToken=${NPM_TOKEN}\n",
		"//npm.corp.example/:_authToken = \"${NPM_TOKEN}\"\r\n",
		"[distutils]\nindex-servers =\n  corp\n[corp]\nrepository: https://pypi.corp.example/simple\nusername: ann\n",
		"machine example.org login anonymous\n",
		"{\"auths\": {\"https://index.docker.io/v1/\": {}}, \"credsStore\": \"desktop\", \"credHelpers\": {}}",
		"[registries.corp]\nindex = \"sparse+https://cargo.corp.example/index/\"\n",
		"[client]\nuser=ann\nhost=db.example.org\nport=3306\n",
		"email = ann@example.org\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		if (!is_harmless(good[i]))
			tap_fail(__FILE__, __LINE__, "hidden: %s", good[i]);
}

TEST(files_with_a_credential_are_not_however_it_is_written)
{
	static const char *const bad[] = {
		"//registry.npmjs.org/:_authToken=npm_abc\n",
		"# //registry.npmjs.org/:_authToken=npm_abc\n",
		"_auth=YW5uOmh1bnRlcjI=\n",
		"//npm.corp.example/:_password=aHVudGVyMg==\n",
		"//npm.corp.example/:_authToken=${NPM_TOKEN}x\n",
		"//npm.corp.example/:_authToken=x${NPM_TOKEN}\n",
		"//npm.corp.example/:_authToken=${}\n",
		"key=\"-----BEGIN\"\n",
		"registry=https://ann:hunter2@npm.corp.example/\n",
		"registry=https://0123abcd@npm.corp.example/${NPM_TOKEN}\n",
		"proxy = http://ann:hunter2@proxy:3128\n",
		"[pypi]\nusername = ann\npassword = hunter2\n",
		"PASSWORD=hunter2",
		"machine example.org\nlogin ann\npassword hunter2\n",
		"machine example.org login ann account hunter2\n",
		"{\"auths\": {\"ghcr.io\": {\"auth\": \"YW5uOng=\"}}}",
		"{\"auths\":{\"ghcr.io\":{\"identitytoken\":\"x\"}}}",
		"{\"HttpHeaders\": {\"X-Meta\": \"x\"}}",
		"[registry]\ntoken = \"cio123\"\n",
		"[registries.corp]\nsecret-key = \"k3.x\"\n",
		"something = 0123456789abcdef0123456789abcdef\n",
		"oath ghp_abcdefghijklmnopqrstuvwxyz0123456789\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (is_harmless(bad[i]))
			tap_fail(__FILE__, __LINE__, "shown: %s", bad[i]);
	CHECK(!secret_content_is_harmless("registry\0token", 14));
}
