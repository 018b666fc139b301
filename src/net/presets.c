/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one table of presets: hosts that everyday tools talk to, by the name of the registry or
 * forge. To add one: a row here, in alphabetical order, and one in docs/network.md.
 *
 * A preset has only the hosts that tools need for fetching and, from a forge, for pushing.
 */
#include <string.h>

#include "net/private.h"

/* The hosts as after "allow:", but separated by spaces. */
static const struct atoll_net_preset presets[] = {
	{ "alpine", "packages of Alpine Linux", "dl-cdn.alpinelinux.org" },
	{ "bitbucket", "repositories on Bitbucket, by https and ssh",
	  "bitbucket.org bitbucket.org:22 api.bitbucket.org" },
	{ "codeberg", "repositories on Codeberg, by https and ssh", "codeberg.org codeberg.org:22" },
	{ "conda", "packages of conda", "conda.anaconda.org repo.anaconda.com" },
	{ "crates", "Rust crates and toolchains", "crates.io index.crates.io static.crates.io static.rust-lang.org" },
	{ "debian", "packages of Debian", "deb.debian.org security.debian.org" },
	{ "github", "repositories, releases and raw files on GitHub, by https and ssh",
	  "github.com github.com:22 api.github.com codeload.github.com *.githubusercontent.com" },
	{ "gitlab", "repositories and packages on gitlab.com, by https and ssh", "gitlab.com gitlab.com:22" },
	{ "go", "Go modules, their checksums, and toolchains", "proxy.golang.org sum.golang.org go.dev dl.google.com" },
	{ "gradle", "Gradle, its plugins, and Maven Central",
	  "services.gradle.org downloads.gradle.org plugins.gradle.org plugins-artifacts.gradle.org "
	  "repo.maven.apache.org repo1.maven.org" },
	{ "hex", "packages of Hex, for Elixir and Erlang", "hex.pm repo.hex.pm builds.hex.pm" },
	{ "huggingface", "models and data sets on Hugging Face", "huggingface.co *.huggingface.co *.hf.co" },
	{ "maven", "Maven Central", "repo.maven.apache.org repo1.maven.org" },
	{ "npm", "packages for Node.js, by npm, pnpm and yarn",
	  "registry.npmjs.org registry.yarnpkg.com repo.yarnpkg.com nodejs.org" },
	{ "nuget", "packages of NuGet", "api.nuget.org www.nuget.org globalcdn.nuget.org" },
	{ "packagist", "the index of Composer; most archives also take github", "packagist.org repo.packagist.org" },
	{ "pypi", "Python packages, by pip and uv", "pypi.org files.pythonhosted.org" },
	{ "rubygems", "Ruby gems", "rubygems.org index.rubygems.org" },
	{ "ubuntu", "packages of Ubuntu",
	  "archive.ubuntu.com *.archive.ubuntu.com security.ubuntu.com ports.ubuntu.com" },
};

const struct atoll_net_preset *net_preset_at(size_t i)
{
	return i < ARRAY_SIZE(presets) ? &presets[i] : NULL;
}

const struct atoll_net_preset *net_preset_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(presets); i++)
		if (strcmp(presets[i].name, name) == 0)
			return &presets[i];
	return NULL;
}
