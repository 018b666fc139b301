/* SPDX-License-Identifier: Apache-2.0 */
/* What a command sees and can write: src/jail/plan.c, mount.c, view.c. */
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "jail-scene.h"

#define LONG_NAME                                                                                                            \
	"a-name-of-many-letters-a-name-of-many-letters-a-name-of-many-letters-a-name-of-many-letters-a-name-of-many-letters" \
	"a-name-of-many-letters-a-name-of-many-letters-a-name-of-many-letters-a-name-of-many-letters-a-name-of-many-letters"

JAIL_TEST(writes_land_in_the_upper_layer_and_the_original_is_untouched)
{
	struct scene s = scene_new("orig");

	CHECK_EQ(scene_sh(&s, "echo new > f && echo added > g"), 0);
	CHECK_STR(tap_read(s.lower, "f"), "original\n");
	CHECK_EQ(faccessat(s.lower, "g", F_OK, 0), -1);
	CHECK_STR(tap_read(s.upper, "f"), "new\n");
	CHECK_STR(tap_read(s.upper, "g"), "added\n");
}

JAIL_TEST(what_one_run_wrote_the_next_one_sees)
{
	struct scene s = scene_new("orig");

	for (int i = 0; i < 20; i++)
		CHECK_EQ(scene_sh(&s, "echo x >> log"), 0);
	CHECK_STR(scene_says(&s, "wc -l < log >&9"), "20\n");
}

static void odd_name(const char *name)
{
	struct scene s = scene_new(name);

	CHECK_STR(scene_says(&s, "cat f >&9; echo new > f; cat f >&9"), "original\nnew\n");
	CHECK_STR(tap_read(s.lower, "f"), "original\n");
	CHECK_STR(tap_read(s.upper, "f"), "new\n");
}

JAIL_TEST(a_path_may_hold_commas_colons_backslashes_quotes_and_newlines)
{
	odd_name("a,b:c\\d\ne\"f'g=h\\054 \xff\x01");
}

JAIL_TEST(a_path_may_be_longer_than_a_mount_option)
{
	CHECK_EQ(mkdir(LONG_NAME, 0755), 0);
	odd_name(LONG_NAME "/" LONG_NAME);
}

JAIL_TEST(kernels_without_layers_by_fd_give_the_same_view)
{
	CHECK_EQ(setenv("ATOLL_OLD_KERNEL", "1", 1), 0);
	CHECK(!jail_overlay_takes_fds());
	odd_name("a,b:c\\d\ne");
}

/* The path of the resource cannot even be told by readlink() then. */
JAIL_TEST(a_path_may_be_longer_than_path_max)
{
	static char path[3 * 4096];
	struct scene s = scene_new("orig");
	int dir = dup(tap_dirfd), next;
	size_t n = (size_t)snprintf(path, sizeof(path), "%s", tap_dir);

	while (n < 4096 + 512) {
		CHECK_EQ(mkdirat(dir, LONG_NAME, 0755), 0);
		next = openat(dir, LONG_NAME, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK(next >= 0);
		close(dir);
		dir = next;
		n += (size_t)snprintf(path + n, sizeof(path) - n, "/%s", LONG_NAME);
	}
	tap_write(dir, "f", "deep\n");
	s.mounts[0].lower_fds[0] = dir;
	s.spec.cwd = path;
	s.spec.mounts = s.mounts;
	s.spec.n_mounts = 1;
	s.spec.argv = (char *[]){ (char *)"sh", (char *)"-c", (char *)"cat f >&9; echo new > f", NULL };
	s.mounts[0].path = path;
	scene_open_says();
	if (jail_run(&s.spec, &s.result, &s.err) < 0)
		tap_fail(__FILE__, __LINE__, "%s", s.err.message);
	CHECK_EQ(s.result.exit_status, 0);
	CHECK_STR(tap_read(tap_dirfd, "says"), "deep\n");
	CHECK_STR(tap_read(dir, "f"), "deep\n");
	CHECK_STR(tap_read(s.upper, "f"), "new\n");
}

JAIL_TEST(everything_else_is_read_only)
{
	struct scene s = scene_new("orig");

	scene_not_in_tmp();
	tap_write(tap_dirfd, "beside", "beside\n");
	CHECK_STR(scene_says(&s, "LC_ALL=C; export LC_ALL; cd ..\n"
				 "for f in . beside /var/tmp; do touch $f 2>&1 | grep -o 'Read-only' >&9; done\n"
				 "sh -c 'echo x > beside' 2>&1 | grep -o 'Read-only' >&9\n"
				 "rm beside 2>&1 | grep -o 'Read-only' >&9"),
		  "Read-only\nRead-only\nRead-only\nRead-only\nRead-only\n");
	CHECK_STR(tap_read(tap_dirfd, "beside"), "beside\n");
}

JAIL_TEST(tmp_and_shm_are_private_empty_and_writable)
{
	struct scene s = scene_new("orig");
	char name[64], script[256];

	scene_not_in_tmp();
	snprintf(name, sizeof(name), "/tmp/atoll-jail-%d", (int)getpid());
	snprintf(script, sizeof(script),
		 "ls -A /tmp /dev/shm | grep -v : >&9; touch %s /dev/shm/x && stat -c %%a /tmp /dev/shm >&9", name);
	CHECK_STR(scene_says(&s, script), "\n1777\n1777\n");
	CHECK_EQ(access(name, F_OK), -1);
}

/* They are parts of one filesystem. */
JAIL_TEST(private_places_are_apart)
{
	struct scene s = scene_new("orig");

	scene_not_in_tmp();
	CHECK_STR(
		scene_says(&s,
			   "echo 1 > /tmp/a; echo 2 > /run/a; echo 3 > /dev/shm/a; cat /tmp/a /run/a /dev/shm/a >&9\n"
			   "cd /tmp; ls -A .. | grep -c -e '^t[0-9]' -e nothing >&9; ls -A /tmp /run | grep -v : >&9"),
		"1\n2\n3\n0\na\n\na\n");
}

JAIL_TEST(home_is_a_layer_that_is_discarded)
{
	struct scene s = scene_new("orig");
	char path[4200];
	int home = scene_dir("home");
	struct stat st;

	CHECK_EQ(fchmod(home, 0710), 0);
	tap_write(home, "rc", "mine\n");
	snprintf(path, sizeof(path), "%s/home", tap_dir);
	scene_mount(&s, JAIL_MOUNT_SCRATCH, path);
	CHECK_STR(scene_says(&s, "cd ../home; cat rc >&9; echo x >> rc; mkdir d; cat rc >&9; stat -c %a . >&9"),
		  "mine\nmine\nx\n710\n");
	CHECK_STR(tap_read(home, "rc"), "mine\n");
	CHECK_EQ(faccessat(home, "d", F_OK, 0), -1);
	CHECK_STR(scene_says(&s, "ls ../home >&9"), "rc\n");
	CHECK_EQ(fstat(home, &st), 0);
	CHECK_EQ(st.st_mode & 07777, 0710);
}

JAIL_TEST(a_home_that_is_missing_or_no_directory_is_passed_over)
{
	struct scene s = scene_new("orig");
	char path[4200];

	snprintf(path, sizeof(path), "%s/none", tap_dir);
	scene_mount(&s, JAIL_MOUNT_SCRATCH, path);
	scene_mount(&s, JAIL_MOUNT_SCRATCH, "/dev/null");
	CHECK_EQ(scene_sh(&s, "test ! -e ../none"), 0);
}

JAIL_TEST(a_resource_inside_home_is_kept)
{
	struct scene s = scene_new("home");
	struct scene inner = { 0 };

	/* The resource is home/project; home itself is scratch. */
	CHECK_EQ(mkdirat(s.lower, "project", 0755), 0);
	inner = s;
	inner.mounts[0].lower_fds[0] = openat(s.lower, "project", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	scene_mount(&inner, JAIL_MOUNT_SCRATCH, s.path);
	strcat(inner.path, "/project");
	CHECK_EQ(scene_sh(&inner, "echo kept > k; echo lost > ../l; test -e ../f"), 0);
	CHECK_STR(tap_read(s.upper, "k"), "kept\n");
	CHECK_EQ(faccessat(s.lower, "l", F_OK, 0), -1);
}

JAIL_TEST(a_resource_below_tmp_is_seen_in_the_private_tmp)
{
	struct scene s = scene_new("orig");
	char dir[] = "/tmp/atoll-jail.XXXXXX", path[64];

	CHECK(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/deep,er", dir);
	CHECK_EQ(mkdir(path, 0755), 0);
	s.mounts[0].lower_fds[0] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(s.path, sizeof(s.path), "%s", path);
	scene_says(&s, "echo x > made; ls /tmp | wc -l >&9; stat -c %a .. >&9");
	CHECK_EQ(rmdir(path), 0);
	CHECK_EQ(rmdir(dir), 0);
	CHECK_STR(tap_read(tap_dirfd, "says"), "1\n755\n");
	CHECK_STR(tap_read(s.upper, "made"), "x\n");
}

JAIL_TEST(a_bind_is_writable_in_place)
{
	struct scene s = scene_new("orig");
	char path[4200], file[4200];
	int copy = scene_dir("copy");

	scene_dir("place");
	tap_write(copy, "c", "copy\n");
	tap_write(tap_dirfd, "file", "outside\n");
	snprintf(path, sizeof(path), "%s/place", tap_dir);
	snprintf(file, sizeof(file), "/tmp/one/file");
	scene_mount(&s, JAIL_MOUNT_BIND, path)->lower_fds[0] = copy;
	scene_mount(&s, JAIL_MOUNT_BIND, file)->lower_fds[0] = openat(tap_dirfd, "file", O_RDONLY | O_CLOEXEC);
	CHECK_STR(scene_says(&s, "cat ../place/c /tmp/one/file >&9; echo w > ../place/w; echo w > /tmp/one/file"),
		  "copy\noutside\n");
	CHECK_STR(tap_read(copy, "w"), "w\n");
	CHECK_STR(tap_read(tap_dirfd, "file"), "w\n");
}

JAIL_TEST(what_is_hidden_cannot_be_seen_or_written)
{
	struct scene s = scene_new("orig");
	char dir[4200], file[4200];
	int secret = scene_dir("secret");

	tap_write(secret, "key", "key\n");
	tap_write(tap_dirfd, "token", "token\n");
	snprintf(dir, sizeof(dir), "%s/secret", tap_dir);
	snprintf(file, sizeof(file), "%s/token", tap_dir);
	scene_mount(&s, JAIL_MOUNT_HIDE, dir);
	scene_mount(&s, JAIL_MOUNT_HIDE, file);
	scene_mount(&s, JAIL_MOUNT_HIDE, "/tmp/not/there");
	CHECK_STR(scene_says(&s,
			     "cat ../secret/key ../token >&9 2>&-; echo x > ../token; touch ../secret/x; ls /tmp >&9"),
		  "");
	CHECK_STR(tap_read(tap_dirfd, "token"), "token\n");
	CHECK_STR(tap_read(secret, "key"), "key\n");
}

JAIL_TEST(a_copy_is_seen_in_place_of_a_file_and_cannot_be_written)
{
	struct scene s = scene_new("orig");
	char file[4200], inner[4300], dir[4200];
	int secret = scene_dir("secret");
	struct jail_mount *m;

	tap_write(tap_dirfd, "config", "token\n");
	tap_write(secret, "config", "token\n");
	tap_write(secret, "key", "key\n");
	snprintf(file, sizeof(file), "%s/config", tap_dir);
	snprintf(dir, sizeof(dir), "%s/secret", tap_dir);
	snprintf(inner, sizeof(inner), "%s/config", dir);
	m = scene_mount(&s, JAIL_MOUNT_COPY, file);
	m->content = "registry\n";
	m->content_size = 9;
	scene_mount(&s, JAIL_MOUNT_VEIL, dir);
	m = scene_mount(&s, JAIL_MOUNT_COPY, inner);
	m->content = "";
	scene_mount(&s, JAIL_MOUNT_COPY, "/tmp/not/there");
	CHECK_STR(scene_says(
			  &s,
			  "cat ../config ../secret/config >&9; echo x > ../config; rm -f ../config; mv ../config ../c; "
			  "cat ../config >&9; ls ../secret /tmp >&9"),
		  "registry\nregistry\n../secret:\nconfig\n\n/tmp:\n");
	CHECK_STR(tap_read(tap_dirfd, "config"), "token\n");
}

JAIL_TEST(of_a_veiled_directory_only_what_the_view_has_in_it_is_seen)
{
	struct scene s = scene_new("orig");
	char dir[4200], inner[4300], file[4200];
	int secret = scene_dir("secret");

	tap_write(secret, "key", "key\n");
	CHECK_OK(mkdirat(secret, "deep", 0755));
	CHECK_OK(mkdirat(secret, "deep/inner", 0755));
	tap_write(secret, "deep/beside", "key\n");
	tap_write(secret, "deep/inner/f", "seen\n");
	tap_write(tap_dirfd, "token", "token\n");
	snprintf(dir, sizeof(dir), "%s/secret", tap_dir);
	snprintf(inner, sizeof(inner), "%s/deep/inner", dir);
	snprintf(file, sizeof(file), "%s/token", tap_dir);
	scene_mount(&s, JAIL_MOUNT_VEIL, dir);
	scene_mount(&s, JAIL_MOUNT_SEE, inner);
	scene_mount(&s, JAIL_MOUNT_VEIL, file);
	CHECK_STR(
		scene_says(
			&s,
			"cd ../secret; cat key deep/beside >&9 2>&-; echo * $(cd deep; echo *) >&9; cat deep/inner/f >&9; "
			"echo x > key; mkdir y; mkdir deep/y; echo * >&9; cat ../token >&9"),
		"deep inner\nseen\ndeep\ntoken\n");
}

JAIL_TEST(processes_of_the_host_are_not_in_proc)
{
	struct scene s = scene_new("orig");

	CHECK_STR(scene_says(&s, "cat /proc/sys/kernel/ns_last_pid >&-; echo $$ >&9; set -- /proc/[0-9]*; echo $# >&9"),
		  "2\n2\n");
}

static void count_mounts(char *ret)
{
	snprintf(ret, 16384, "%s", tap_read(AT_FDCWD, "/proc/self/mountinfo"));
}

static int check_host_mounts(pid_t pid, uint64_t start_time, const struct jail_namespaces *namespaces, void *arg,
			     struct atoll_error *err)
{
	static char now[16384];

	(void)pid;
	(void)start_time;
	(void)err;
	usleep(50000); /* the view is being built meanwhile */
	count_mounts(now);
	CHECK_EQ(strstr(now, tap_dir) != NULL, false);
	*(bool *)arg = true;
	return 0;
}

JAIL_TEST(no_mount_is_ever_visible_on_the_host)
{
	static char after[16384];
	struct scene s = scene_new("orig");
	bool asked = false;

	s.spec.started = check_host_mounts;
	s.spec.started_arg = &asked;
	CHECK_EQ(scene_sh(&s, "true"), 0);
	CHECK(asked);
	count_mounts(after);
	CHECK_EQ(strstr(after, tap_dir) != NULL, false);
}

JAIL_TEST(settings_of_the_host_cannot_be_changed_through_proc)
{
	struct scene s = scene_new("orig");

	CHECK(scene_sh(&s, "exec 2>&-; cat /proc/sys/vm/swappiness > /proc/sys/vm/swappiness") != 0);
}

JAIL_TEST(the_umask_of_the_caller_is_the_commands)
{
	struct scene s = scene_new("orig");

	umask(0027);
	CHECK_STR(scene_says(&s, "umask >&9; mkdir d; stat -c %a d >&9"), "0027\n750\n");
}

JAIL_TEST(a_missing_mount_point_is_an_error_with_its_name)
{
	struct scene s = scene_new("orig");

	scene_not_in_tmp();
	snprintf(s.path, sizeof(s.path), "%s/missing", tap_dir);
	s.spec.cwd = "/";
	CHECK(scene_try(&s, (char *[]){ (char *)"true", NULL }) < 0);
	CHECK_CONTAINS(s.err.message, s.path);
	CHECK_STR(s.err.operation, "run");
}

JAIL_TEST(a_layer_that_the_kernel_refuses_is_an_error_with_its_path)
{
	struct scene s = scene_new("orig");

	s.mounts[0].work_fd = s.upper; /* upper and work the same */
	CHECK(scene_try(&s, (char *[]){ (char *)"true", NULL }) < 0);
	CHECK_CONTAINS(s.err.message, s.path);
}

TEST(a_directory_with_a_mount_below_it_stays_read_only_as_user)
{
	struct scene s;

	scene_as_root();
	CHECK_EQ(unshare(CLONE_NEWNS), 0);
	CHECK_EQ(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	CHECK_EQ(mkdir("home", 0777), 0);
	CHECK_EQ(chmod("home", 0777), 0);
	CHECK_EQ(mkdir("home/sub", 0755), 0);
	CHECK_EQ(mount("none", "home/sub", "tmpfs", 0, NULL), 0);
	CHECK_EQ(mkdir("home/sub/inside", 0755), 0);
	scene_as_user();
	s = scene_new("orig");
	strcat(tap_dir, "/home");
	scene_mount(&s, JAIL_MOUNT_SCRATCH, tap_dir);
	CHECK_STR(
		scene_says(
			&s,
			"ls ../home/sub >&9; touch ../home/new 2>&1 | grep -o Read-only >&9; touch new && echo written >&9"),
		"inside\nRead-only\nwritten\n");
}

TEST(a_required_layer_that_cannot_be_made_ends_the_run_as_user)
{
	struct scene s;

	scene_as_root();
	CHECK_EQ(unshare(CLONE_NEWNS), 0);
	CHECK_EQ(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	CHECK_EQ(mkdir("place", 0755), 0);
	CHECK_EQ(mkdir("place/sub", 0755), 0);
	CHECK_EQ(mount("none", "place/sub", "tmpfs", 0, NULL), 0);
	scene_as_user();
	s = scene_new("orig");
	strcat(tap_dir, "/place");
	scene_mount(&s, JAIL_MOUNT_SCRATCH, tap_dir)->required = true;
	CHECK_EQ(scene_try(&s, (char *[]){ (char *)"true", NULL }), -ATOLL_UNSUPPORTED);
	CHECK_CONTAINS(s.err.message, tap_dir);
}

JAIL_TEST(the_root_cannot_be_mounted_over)
{
	struct scene s = scene_new("orig");

	scene_mount(&s, JAIL_MOUNT_TMPFS, "/");
	CHECK_EQ(scene_try(&s, (char *[]){ (char *)"true", NULL }), -ATOLL_INVALID);
}

JAIL_TEST(the_old_root_is_gone_and_nothing_of_the_new_one_is_writable)
{
	struct scene s = scene_new("orig");

	/* One line for each mount, its flags in the sixth word. */
	CHECK_STR(scene_says(&s, "cut -d' ' -f5,6 /proc/self/mountinfo | grep '^/ ' | sed 's/,relatime//' >&9\n"
				 "cut -d' ' -f5,6 /proc/self/mountinfo | grep -v ^/dev/ | grep -vc nosuid >&9"),
		  "/ ro,nosuid,nodev\n0\n");
}

JAIL_TEST(dev_is_private_and_holds_what_every_program_may_have)
{
	struct scene s = scene_new("orig");

	CHECK_STR(scene_says(&s, "ls /dev | xargs echo >&9; head -c 3 /dev/zero | wc -c >&9; echo x > /dev/null\n"
				 "echo x > /dev/full || echo full >&9; head -c 3 /dev/urandom | wc -c >&9\n"
				 "echo fd | cat /dev/fd/0 >&9; stat -c %t:%T /dev/null >&9"),
		  "core fd full null ptmx pts random shm stderr stdin stdout tty urandom zero\n3\nfull\n3\nfd\n1:3\n");
}

JAIL_TEST(terminals_can_be_made_inside_and_are_ones_own)
{
	struct scene s = scene_new("orig");

	CHECK_STR(
		scene_says(
			&s,
			"script -qc 'tty; stty size > /dev/null && echo works' /dev/null < /dev/null | tr -d '\\r' >&9\n"
			"ls /dev/pts >&9"),
		"/dev/pts/0\nworks\nptmx\n");
}

JAIL_TEST(run_is_private_and_empty)
{
	struct scene s = scene_new("orig");

	CHECK_STR(scene_says(&s,
			     "ls -A /run | grep -v -e systemd -e resolvconf >&9; touch /run/x && stat -c %a /run >&9"),
		  "755\n");
}

/* Listens at a path, in this process, until the test ends. */
static void listen_at(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(strlen(path) < sizeof(address.sun_path));
	strcpy(address.sun_path, path);
	CHECK_EQ(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	CHECK_EQ(listen(fd, 8), 0);
}

JAIL_TEST(sockets_of_the_host_cannot_be_connected_to)
{
	struct scene s = scene_new("orig");
	char path[4200], script[8800];

	scene_not_in_tmp();
	CHECK_EQ(mkdir("deep", 0755), 0);
	snprintf(path, sizeof(path), "%s/deep/socket", tap_dir);
	if (strlen(path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		tap_skip("the test's own directory has too long a name");
	listen_at(path);
	snprintf(script, sizeof(script),
		 "test -S %s && python3 -c 'import socket\ns = socket.socket(socket.AF_UNIX)\n"
		 "try: s.connect(\"%s\")\nexcept ConnectionRefusedError: print(\"refused\")' >&9",
		 path, path);
	CHECK_STR(scene_says(&s, script), "refused\n");
}

/* In a user namespace no overlay can cover the directory then. */
static void sockets_beside_a_mount(void (*become)(void))
{
	struct scene s;

	scene_as_root();
	scene_not_in_tmp();
	CHECK_EQ(unshare(CLONE_NEWNS), 0);
	CHECK_EQ(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	CHECK_EQ(mkdir("a", 0777), 0);
	CHECK_EQ(mkdir("a/mounted", 0755), 0);
	CHECK_EQ(mount("none", "a/mounted", "tmpfs", 0, NULL), 0);
	CHECK_EQ(mkdir("a/mounted/inside", 0755), 0);
	CHECK_EQ(chdir("a"), 0);
	listen_at("socket");
	CHECK_EQ(chmod("socket", 0777), 0);
	CHECK_EQ(chdir(".."), 0);
	become();
	s = scene_new("orig");
	CHECK_STR(scene_says(&s,
			     "stat -c %F ../a/socket >&9; ls ../a/mounted >&9\n"
			     "python3 -c 'import socket\ns = socket.socket(socket.AF_UNIX)\n"
			     "try: s.connect(\"../a/socket\")\nexcept ConnectionRefusedError: print(\"refused\")' >&9"),
		  "socket\ninside\nrefused\n");
}

/* A filesystem of the test's own at /srv, in a mount namespace of its own. */
static void mount_at_srv(const char *options)
{
	scene_as_root();
	if (access("/srv", F_OK) < 0)
		tap_skip("there is no /srv");
	CHECK_EQ(unshare(CLONE_NEWNS), 0);
	CHECK_EQ(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	CHECK_EQ(mount("none", "/srv", "tmpfs", 0, options), 0);
}

TEST(sockets_below_a_directory_that_can_be_passed_but_not_listed_cannot_be_connected_to)
{
	struct scene s;

	mount_at_srv("mode=0711");
	CHECK_EQ(mkdir("/srv/in", 0755), 0);
	listen_at("/srv/in/socket");
	CHECK_EQ(chmod("/srv/in/socket", 0777), 0);
	scene_as_user();
	s = scene_new("orig");
	CHECK_STR(scene_says(
			  &s,
			  "python3 -c 'import socket\ns = socket.socket(socket.AF_UNIX)\n"
			  "try: s.connect(\"/srv/in/socket\")\nexcept ConnectionRefusedError: print(\"refused\")' >&9"),
		  "refused\n");
}

/* Below a mount's parent directories are covered one by one, while somebody makes and removes them. */
TEST(directories_that_come_and_go_while_sockets_are_covered_are_no_error)
{
	struct scene s;
	pid_t pid;

	mount_at_srv("mode=0755");
	CHECK_EQ(mkdir("/srv/mounted", 0755), 0);
	CHECK_EQ(mount("none", "/srv/mounted", "tmpfs", 0, NULL), 0);
	s = scene_new("orig");
	pid = fork();
	CHECK_OK(pid);
	while (pid == 0) {
		(void)mkdir("/srv/a", 0755);
		(void)mkdir("/srv/a/b", 0755);
		(void)rmdir("/srv/a/b");
		(void)rmdir("/srv/a");
	}
	for (int i = 0; i < 100; i++)
		CHECK_EQ(scene_sh(&s, "exit 3"), 3);
	CHECK_OK(kill(pid, SIGKILL));
	CHECK_OK(waitpid(pid, NULL, 0));
}

TEST(sockets_beside_a_mount_of_the_host_are_covered_and_the_mount_is_seen_as_root)
{
	sockets_beside_a_mount(scene_as_root);
}

TEST(sockets_beside_a_mount_of_the_host_are_covered_and_the_mount_is_seen_as_user)
{
	sockets_beside_a_mount(scene_as_user);
}
