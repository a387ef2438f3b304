package pyruntime

import (
	"slices"
	"strings"
)

// SecretLooking tells whether a variable of this name most likely holds a
// secret, which belongs neither into a run's stored options nor into the
// environment of every child.
func SecretLooking(name string) bool {
	words := strings.FieldsFunc(strings.ToUpper(name), func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
	for i, word := range words {
		before := ""
		if i > 0 {
			before = words[i-1]
		}
		if secretWord(word) || secretPair(before, word) {
			return true
		}
	}
	return false
}

// secretWord knows words that tell alone, also glued to another: DBPASSWORD.
func secretWord(word string) bool {
	for _, end := range []string{"SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS", "APIKEY", "APITOKEN", "AUTHTOKEN"} {
		if strings.HasSuffix(word, end) {
			return true
		}
	}
	return slices.Contains([]string{"PASS", "PAT", "JWT", "BEARER"}, word)
}

// secretPair knows words that need a look at their neighbour: an API_KEY is a
// secret and a SORT_KEY isn't, an HF_TOKEN is and a PAD_TOKEN of a tokenizer
// isn't, a DB_PWD is and PWD isn't.
func secretPair(before, word string) bool {
	switch word {
	case "TOKEN":
		return !slices.Contains([]string{"PAD", "EOS", "BOS", "UNK", "MASK", "SEP", "CLS", "MAX", "MIN", "NUM", "PER", "SPECIAL", "START", "END", "STOP"}, before)
	case "KEY", "KEYS":
		return slices.Contains([]string{"API", "ACCESS", "SECRET", "PRIVATE", "AUTH", "ENCRYPTION", "SIGNING", "MASTER", "ACCOUNT", "SSH", "LICENSE", "OPENAI", "ANTHROPIC", "WANDB"}, before)
	case "PWD":
		return before != ""
	}
	return false
}
