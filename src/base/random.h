/* SPDX-License-Identifier: Apache-2.0 */
/* Random identifiers, from getrandom(2). */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stddef.h>

void random_bytes(void *data, size_t size);
void random_uuid(char buffer[37]);           /* version 4, lower case */
void random_name(char *buffer, size_t size); /* a readable pair: "amber-reef" */

#endif
