/* Commands that are asked something: started, listened to, and ended by one deadline for all of them.
 *
 *     struct mt_question questions[2];
 *     mt_question_begin(&questions[0], (char *[]){"ssh", "a", "uname", "-n", NULL});
 *     mt_question_begin(&questions[1], (char *[]){"ssh", "b", "uname", "-n", NULL});
 *     mt_questions_end(questions, 2, 30, NULL);
 *     ... questions[0].in_time, questions[0].status, questions[0].text ...
 *     mt_question_release(&questions[0]), mt_question_release(&questions[1]); */
#ifndef MT_LAUNCHER_LAUNCH_QUESTION_H
#define MT_LAUNCHER_LAUNCH_QUESTION_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { MT_QUESTION_MOST_BYTES = 1 << 22 };

struct mt_question {
    pid_t pid; /* 0: no process could be started */
    int fd;    /* of what it prints, also to standard error; -1: closed */
    size_t length, capacity;
    char *text;   /* at most MT_QUESTION_MOST_BYTES; never null after the end */
    bool in_time; /* it has ended by itself */
    int status;   /* as of waitpid */
};

void mt_question_begin(struct mt_question *q, char *const *words);

/* Wait until all have ended, for deadline_s, or until `stop`, unless it is null, says so; it is asked ten times a
 * second. Those that are left are killed, with what they have started. */
void mt_questions_end(struct mt_question *questions, int n, double deadline_s, bool (*stop)(void));
void mt_question_release(struct mt_question *q);

/* Whether it ended in time, and with 0. */
bool mt_question_answered(const struct mt_question *q);

#endif
