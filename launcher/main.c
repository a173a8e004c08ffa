/* The motley program. */
#include "launcher/commands/command.h"

int main(int argc, char **argv) {
    return mt_command_main(argc, argv);
}
