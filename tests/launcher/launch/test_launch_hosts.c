/* Hostfiles as mpirun understands them, refusals by line, and hosts that answer or do not. */
#include "launcher/launch/hosts.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernels/base/wait.h"
#include "launcher/launch/files.h"
#include "tests/check.h"

static void test_parse(void) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_err err = MT_ERR_INIT;
    struct mt_hosts hosts;
    const char *text = "# who trains\n\nnode1 slots=4 # fast\n  node2\t slots = 2 max_slots=3\nnode3\nnode4\nnode4\r\n"
                       "node1 slots=2\nnode5.cluster max-slots=7";
    static const struct {
        const char *name;
        int slots;
    } want[] = {{"node1", 6}, {"node2", 2}, {"node3", 0}, {"node4", 2}, {"node5.cluster", 7}};
    CHECK_OK(mt_hosts_parse("hosts", text, &arena, &hosts, &err), err);
    CHECK_EQ(hosts.n, 5);
    for (int h = 0; h < 5; h++) {
        CHECK(!strcmp(hosts.hosts[h].name, want[h].name), "%s", hosts.hosts[h].name);
        CHECK_EQ(hosts.hosts[h].slots, want[h].slots);
    }
    CHECK_EQ(mt_hosts_find(&hosts, "node5"), 4);
    CHECK_EQ(mt_hosts_find(&hosts, "node1.cluster"), 0);
    CHECK_EQ(mt_hosts_find(&hosts, "node"), -1);
    mt_arena_release(&arena);
}

static void test_refusals(void) {
    static const struct {
        const char *text, *say;
    } wrong[] = {{"", "hosts: names no host"},
                 {"# none\n", "hosts: names no host"},
                 {"a\nb slots=x\n", "hosts: line 2: slots must be a number from 1 to 16384"},
                 {"a slots=0", "hosts: line 1: slots must be"},
                 {"a slots", "hosts: line 1: slots must be"},
                 {"a slots=99999999999999999999", "hosts: line 1: slots must be"},
                 {"a slots=16000\na slots=16000", "hosts: line 2: a has more than 16384 slots"},
                 {"a port=22", "hosts: line 1: \"port\" is not understood"},
                 {"^a", "hosts: line 1: \"^a\" is no name"},
                 {"me@a", "hosts: line 1: \"me@a\" is no name"},
                 {"a\n-oProxyCommand", "hosts: line 2: \"-oProxyCommand\" is no name"},
                 {"a;touch${IFS}b slots=2", "hosts: line 1: \"a;touch${IFS}b\" is no name"},
                 {"a,b", "hosts: line 1: \"a,b\" is no name"},
                 {"::1 slots=2", "hosts: line 1: \"::1\" is no name"},
                 {"a b", "hosts: line 1: \"b\" is not understood"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct mt_arena arena = MT_ARENA_INIT;
        struct mt_err err = MT_ERR_INIT;
        struct mt_hosts hosts;
        CHECK_EQ(mt_hosts_parse("hosts", wrong[i].text, &arena, &hosts, &err), MT_EINPUT);
        CHECK(!strncmp(err.text, wrong[i].say, strlen(wrong[i].say)), "%s", err.text);
        mt_arena_release(&arena);
    }
}

/* An agent that answers for one host, fails for another, and hangs for the third, also in a child of its own. */
static void test_ask(void) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_err err = MT_ERR_INIT;
    struct mt_hosts hosts;
    char agent[] = "/tmp/test_launch_hosts.XXXXXX", command[64];
    int fd = mkstemp(agent);
    FILE *f = fdopen(fd, "w");
    fprintf(f, "case $1 in\nup) shift; echo banner; echo up.cluster ;;\nrefuses) echo no route >&2; exit 3 ;;\n"
               "*) sleep 1000 & sleep 1000 ;;\nesac\n");
    fclose(f);
    CHECK_OK(mt_hosts_parse("hosts", "up\nrefuses\nhangs\nlocalhost", &arena, &hosts, &err), err);
    snprintf(command, sizeof command, "sh %s", agent);
    double begin_s = mt_now_s();
    mt_hosts_ask(&hosts, command, 5, NULL);
    CHECK(mt_now_s() - begin_s < 500, "it waits for what hangs");
    CHECK(hosts.hosts[0].answers && !strcmp(hosts.hosts[0].says, "up.cluster"), "%s", hosts.hosts[0].says);
    CHECK(!hosts.hosts[1].answers && !strcmp(hosts.hosts[1].why, "no route"), "%s", hosts.hosts[1].why);
    CHECK(!hosts.hosts[2].answers && !strcmp(hosts.hosts[2].why, "no answer for 5 s"), "%s", hosts.hosts[2].why);
    char here[256] = "";
    gethostname(here, sizeof here - 1);
    CHECK(hosts.hosts[3].answers && !strcmp(hosts.hosts[3].says, here), "%s", hosts.hosts[3].says);
    unlink(agent);
    mt_arena_release(&arena);
}

static bool stop_now(void) {
    return true;
}

/* Nobody waits for an answer after a request to stop. */
static void test_stop(void) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_err err = MT_ERR_INIT;
    struct mt_hosts hosts;
    CHECK_OK(mt_hosts_parse("hosts", "hangs", &arena, &hosts, &err), err);
    double begin_s = mt_now_s();
    mt_hosts_ask(&hosts, "sh -c sleep${IFS}1000", 900, stop_now);
    CHECK(mt_now_s() - begin_s < 500, "it waits for what hangs");
    CHECK(!hosts.hosts[0].answers && !strcmp(hosts.hosts[0].why, "it had not answered yet"), "%s", hosts.hosts[0].why);
    mt_arena_release(&arena);
}

/* Who has a connection to one of these ports: here the host that lists our own connection. */
static void test_connections(void) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_err err = MT_ERR_INIT;
    struct mt_hosts hosts;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof to;
    char agent[] = "/tmp/test_launch_hosts.XXXXXX", command[64];
    int listening = socket(AF_INET, SOCK_STREAM, 0), connected = socket(AF_INET, SOCK_STREAM, 0);
    FILE *f = fdopen(mkstemp(agent), "w");
    fprintf(f, "case $1 in\nthere) shift; \"$@\" ;;\nelsewhere) ;;\n*) exec sleep 1000 ;;\nesac\n");
    fclose(f);
    snprintf(command, sizeof command, "sh %s", agent);
    CHECK(!bind(listening, (struct sockaddr *)&to, sizeof to) && !listen(listening, 1), "no port");
    CHECK(!getsockname(listening, (struct sockaddr *)&to, &length), "no port");
    CHECK_OK(mt_hosts_parse("hosts", "there\nelsewhere\nhangs\nlocalhost", &arena, &hosts, &err), err);
    const int ports[] = {ntohs(to.sin_port), 0};
    for (int round = 0; round < 2; round++) {
        mt_hosts_ask_connections(&hosts, command, 5, ports);
        CHECK_EQ(hosts.hosts[0].connected, round ? MT_HOST_CONNECTED : MT_HOST_UNCONNECTED);
        CHECK_EQ(hosts.hosts[1].connected, MT_HOST_UNCONNECTED);
        CHECK_EQ(hosts.hosts[2].connected, MT_HOST_SILENT);
        CHECK_EQ(hosts.hosts[3].connected, MT_HOST_CONNECTED);
        if (!round) CHECK(!connect(connected, (struct sockaddr *)&to, sizeof to), "no connection");
    }
    close(listening), close(connected);
    unlink(agent);
    mt_arena_release(&arena);
}

/* A shell gives back what was quoted. */
static void test_quotes(void) {
    static const char *const words[] = {"plain-1.0,x=/y:%",     "",   "a b", "it's",
                                        "$HOME `x` \"y\" \\ *", "''", "\n",  "ä;|&"};
    struct mt_arena arena = MT_ARENA_INIT;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char got[256] = "";
        FILE *f = popen(mt_arena_printf(&arena, "printf '%%s' %s", mt_shell_word(words[i], &arena)), "r");
        got[fread(got, 1, sizeof got - 1, f)] = 0;
        CHECK_EQ(pclose(f), 0);
        CHECK(!strcmp(got, words[i]), "\"%s\" became \"%s\"", words[i], got);
    }
    mt_arena_release(&arena);
}

int main(void) {
    test_parse();
    test_refusals();
    test_ask();
    test_stop();
    test_connections();
    test_quotes();
    return 0;
}
