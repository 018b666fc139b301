/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process beside a run whose output is kept: it copies what the command writes into a log of bounded size, and on to where it was going;
 * and it hands on what is typed, by those who attach. It ends with the last writer, whoever is killed, and holds nothing else open.
 *
 * A log is two files, N and N.1: when the newer one is full it takes the place of the older. N.sock is where one attaches.
 */
#ifndef ENGINE_SCRIBE_H
#define ENGINE_SCRIBE_H

#include "engine/engine.h"

struct scribe_spec {
	bool tty;        /* the command gets a pseudo-terminal: for output, and if there is one, for input */
	bool attachable; /* standard input comes from those who attach */
	bool leave[2];   /* output, or errors, are no matter of this */
	int copy_to
		[2]; /* where output and errors go beside the log, or -EBADF; of a pseudo-terminal the first counts */
	int input;   /* a terminal that is typed at meanwhile, or -EBADF */
	int screen;  /* a terminal of which a pseudo-terminal has size and settings, or -EBADF */
};

struct scribe {
	pid_t pid;    /* 0: none */
	int stdio[3]; /* for the command; -EBADF: what the caller has */
};
#define SCRIBE_NONE                            \
	{                                      \
		0,                             \
		{                              \
			-EBADF, -EBADF, -EBADF \
		}                              \
	}

/* The directory of a sandbox's logs, made if need be, without what the record has forgotten by this run. An fd or -errno. */
int scribe_open_logs(struct atoll *a, const char *uuid, int64_t run);
/* 0 or -errno. The scribe has no signal and raises none at its end. */
int scribe_start(int logs, int64_t run, const struct scribe_spec *spec, struct scribe *ret);
void scribe_close_ends(struct scribe *r); /* the command has them */
/* For a run in the foreground: what is to be done with the caller's output. terminal: all three are one, in the foreground. False if there is
 * nothing that could be kept. */
bool scribe_of_caller(bool terminal, struct scribe_spec *ret);
void scribe_wait(struct scribe *r); /* until all of the output is in the log */

void scribe_log_name(char name[32], int64_t run, const char *suffix); /* "", ".1" or ".sock" */
char *scribe_logs_path(const char *uuid);                             /* below the state directory */

/* What is sent by those who attach: one packet each, a letter and what belongs to it. */
#define SCRIBE_INPUT 'I'
#define SCRIBE_END 'E'  /* of the input */
#define SCRIBE_SIZE 'S' /* of the terminal: struct winsize */
#define SCRIBE_PACKET_MAX 1024
/* A socket to the scribe of a run; -ECONNREFUSED or -ENOENT if there is none. */
int scribe_connect(int logs, int64_t run);

#endif
