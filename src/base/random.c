/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"

#include <stdint.h>
#include <sys/random.h>

#include "base/macros.h"

void random_bytes(void *data, size_t size)
{
	char *p = data;

	while (size > 0) {
		ssize_t n = getrandom(p, size, 0);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			/* Names that repeat would be worse than ending here; no kernel we run on refuses. */
			abort();
		}
		p += n;
		size -= (size_t)n;
	}
}

void random_uuid(char buffer[37])
{
	static const char digits[] = "0123456789abcdef";
	unsigned char b[16];
	char *p = buffer;

	random_bytes(b, sizeof(b));
	b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
	b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
	for (size_t i = 0; i < sizeof(b); i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*p++ = '-';
		*p++ = digits[b[i] >> 4];
		*p++ = digits[b[i] & 15];
	}
	*p = '\0';
}

/* 64 of each, so that six random bits choose one without bias. */
static const char *const qualities[64] = {
	"amber",  "ancient", "azure",   "blue",   "bold",   "brave",   "bright", "brisk", "calm",    "clear", "cobalt",
	"cool",   "coral",   "crimson", "dark",   "deep",   "distant", "eager",  "early", "emerald", "fair",  "fresh",
	"gentle", "golden",  "grand",   "green",  "hidden", "indigo",  "ivory",  "jade",  "keen",    "late",  "light",
	"lively", "lone",    "lucid",   "mellow", "misty",  "noble",   "olive",  "opal",  "pale",    "pearl", "plain",
	"proud",  "quick",   "quiet",   "rapid",  "red",    "rosy",    "royal",  "ruby",  "salty",   "sandy", "silent",
	"silver", "smooth",  "steady",  "still",  "sunny",  "swift",   "warm",   "white", "wild",
};
static const char *const things[64] = {
	"anchor", "bay",   "beach", "beacon", "breeze", "brook",   "buoy",  "cape",  "cay",     "channel", "cliff",
	"cloud",  "coast", "cove",  "crab",   "creek",  "current", "delta", "dock",  "dolphin", "dune",    "fjord",
	"float",  "foam",  "gale",  "gull",   "gulf",   "harbour", "heron", "inlet", "island",  "jetty",   "kelp",
	"lagoon", "lake",  "ledge", "marsh",  "mast",   "oar",     "ocean", "otter", "palm",    "pelican", "pier",
	"pool",   "port",  "quay",  "raft",   "reef",   "ripple",  "river", "rock",  "sail",    "sand",    "shell",
	"shoal",  "shore", "sound", "spray",  "strait", "surf",    "tern",  "tide",  "wave",
};

void random_name(char *buffer, size_t size)
{
	uint8_t b[2];

	random_bytes(b, sizeof(b));
	snprintf(buffer, size, "%s-%s", qualities[b[0] % 64], things[b[1] % 64]);
}
